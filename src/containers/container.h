// One container, as the warden knows it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "containers/log_ring.h"
#include "ipc/ipc.h"
#include "os/peer.h"
#include "sandbox/launcher_protocol.h"

namespace sallyport::containers {

// What was asked for. Kept in the state directory, so that a later warden knows of it.
struct Config {
  std::string profile = "default";
  std::string name;                  // for people; the id is derived from it
  std::string workspace;             // absolute host path, or empty
  std::vector<std::string> command;  // empty: it waits for exec requests
  std::map<std::string, std::string> environment, labels;
  std::string pod;                     // whose sandbox it is; empty: the warden's launcher made it, or a `run`
  std::vector<std::string> net_allow;  // beside the profile's; only the host may ask for it
  std::string group;                   // whose session it gets; empty: one of its own
  std::string overrides;               // of the profile, which they only narrow; a JSON object, or empty
  std::string input;                   // for its command's stdin; not recorded
  bool should_restart = false;         // started again by a warden that finds it lost
  std::string origin;                  // owner_of() whoever had this run scheduled, or whom it replaces; or empty
  std::string replaces;                // the lost one that was started again as this one; or empty
  bool is_temporary = false;           // forgotten when it is over and nothing of it is left to answer
  Millis idle{0};                      // stopped after so long without work where the profile says nothing; 0: never
};

enum class State : std::uint8_t {
  starting,
  running,
  exited,  // its command ended, or it was stopped
  failed,  // it never ran
  lost,    // it ended with an earlier warden or with its launcher
};
std::string_view to_string(State state);
inline bool is_over(State state) { return state == State::exited || state == State::failed || state == State::lost; }

// A command in a container: its own, or one of container.exec.
struct Job {
  bool is_worker = false;  // the file worker: nobody waits for its end
  std::uint32_t number = 0;
  ipc::OneShot<Status> started;
  ipc::OneShot<int> exited;  // a wait status
};

// "key=value" of each, as an environment has them.
inline void append_pairs(std::vector<std::string>& to, const std::map<std::string, std::string>& map) {
  to.reserve(to.size() + map.size());
  for (const auto& [key, value] : map) to.emplace_back(key).append("=").append(value);
}

// The same, in the place of those that have such a key already.
inline void set_pairs(std::vector<std::string>& to, const std::map<std::string, std::string>& map) {
  std::erase_if(to, [&](const std::string& pair) { return map.contains(pair.substr(0, pair.find('='))); });
  append_pairs(to, map);
}

struct Container {
  std::string id;
  Config config;
  State state = State::starting;
  std::int64_t created_unix_ms = 0, ended_unix_ms = 0;
  std::string door_dir, mailbox_dir, session_dir;  // host paths
  std::string protections_json = "{}";
  std::string failure;  // of a launch
  std::optional<int> wait_status;
  bool was_over_memory = false, was_over_time = false, was_idle = false;
  std::vector<std::string> reports;
  std::uint64_t violations = 0;
  LogRing out, err;
  bool is_output_captured = false;  // an adopted one writes to its maker's terminal
  std::uint64_t output_taken = 0;   // of `out`, as structured output; see containers/output.h

  // Its labels as "key=value": what handlers see as capability tags.
  std::vector<std::string> tags() const {
    std::vector<std::string> all;
    append_pairs(all, config.labels);
    return all;
  }

  // While it runs.
  std::vector<std::string> denied, denied_patterns;  // what its specification hides from it
  std::vector<std::string> environment;              // of every command in it
  sandbox::Handle handle = 0;
  std::int32_t pid = 0;
  os::NamespaceId pid_namespace;
  UniqueFd held_namespace;  // keeps its numbers from being given to another; unless it was adopted
  UniqueFd process, maker;  // of an adopted one: its pid 1, and who passes signals on to it
  UniqueFd proxy_listener;  // until the proxy has it
  std::map<std::uint32_t, std::shared_ptr<Job>> jobs;
  std::uint32_t last_job = 0;
  // Its door: whoever connects waits in the kernel's queue until it is known where the container lives.
  UniqueFd listening;
  std::unique_ptr<ipc::Listener> listener;
  std::shared_ptr<ipc::Watch> out_pipe;  // until its end
  SteadyTime last_activity;
  Millis idle_limit{0};
  std::function<bool()> is_used;  // by a call of its file worker; none: it has had none

  // Runs once, when it is over; what came first first. By its number it can be taken back.
  std::uint64_t when_over(std::function<void()> work) {
    on_end.emplace(++last_on_end, std::move(work));
    return last_on_end;
  }
  std::map<std::uint64_t, std::function<void()>> on_end;
  std::uint64_t last_on_end = 0;
};

// To whom it counts what it schedules and how often it asks: the group or container that it comes from in the end.
inline std::string owner_of(const Container& container) {
  if (!container.config.origin.empty()) return container.config.origin;
  return container.config.group.empty() ? container.id : "group/" + container.config.group;
}

}  // namespace sallyport::containers

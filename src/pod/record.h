// pod.json: where a pod can be reached and what became of it.
//
// Each pod has a directory of its own, `<state>/pods/<name>/`, mode 0700, outside anything its agent can see: the
// daemon holds a lock on it as long as it lives, `pod.json` (0600) says where it listens, `pod.sock` is its door unless
// that is on loopback TCP, `pod.log` its log. Nothing here trusts a pid alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "os/peer.h"
#include "wire/handshake.h"

namespace sallyport::pod {

struct Record {
  std::string name;
  std::string address;    // "127.0.0.1:54213", or the path of a Unix socket
  wire::Binding binding;  // boot id, pid and start time of the daemon; its address again
  wire::Token token{};
  std::vector<std::string> command;
  std::string profile, workspace;
  // By which the warden knows its sandbox: the container, its pid 1 and that one's pid namespace.
  std::string container;
  std::uint64_t agent_pid = 0;
  os::NamespaceId pid_namespace;
  std::int64_t created_unix_ms = 0;
  // Once the agent has ended:
  std::optional<int> wait_status;
  std::int64_t exited_unix_ms = 0;
  // When it was noticed that its daemon is gone without having left a status.
  std::int64_t lost_unix_ms = 0;

  bool is_tcp() const { return !address.starts_with('/'); }
};

std::string to_json(const Record& record);
Result<Record> parse_record(std::string_view json);

// Lower-case letters, digits, '-' and '_', at most kMaxNameBytes; so never a path.
Status check_name(std::string_view name);

// One pod's directory.
class Place {
 public:
  Place(const std::string& pods_dir, const std::string& name) : path_(pods_dir + "/" + name), name_(name) {}

  const std::string& path() const { return path_; }
  std::string record_path() const { return path_ + "/pod.json"; }
  std::string socket_path() const { return path_ + "/pod.sock"; }
  std::string log_path() const { return path_ + "/pod.log"; }

  // NOT_FOUND if there is none. CONFLICT for a link, another owner or mode: it is not what a pod wrote. Any other error
  // says nothing about it.
  Result<Record> read() const;
  Status write(const Record& record) const;
  bool exists() const;
  // Of the directory itself, which nobody can remove or replace alone. CONFLICT while a daemon lives, whatever its
  // record says; NOT_FOUND if there is none. The lock must be held for the next two.
  Result<UniqueFd> lock() const;
  // Removes what a dead pod left, and nothing else.
  void remove() const;
  std::string last_words() const;

 private:
  std::string path_, name_;
};

// `running` and `exited` have a daemon; `collectable` has none any more but left its status; `lost` left
// none; `starting` holds its lock and has not published yet; `tampered` holds its lock, and what stands in place of its
// record is not what it wrote. `unknown`: this process could not look, for want of descriptors, say.
enum class Life : std::uint8_t { starting, running, exited, collectable, lost, tampered, unknown };
std::string_view to_string(Life life);

struct Sighting {
  Life life = Life::lost;
  std::optional<Record> record;
  std::string problem;  // why there is no record, when there should be one, and what to do about it
};

// What is true of a pod now: by its held lock first, then by its record, its process and that process's start
// time. A zombie and a recycled pid are dead. Whether it can be connected to says nothing about its life.
Sighting look(const Place& place);
// Every pod in the directory, by name.
std::vector<std::pair<std::string, Sighting>> look_at_all(const std::string& pods_dir);

// Its record, or nothing as long as it is starting. NOT_FOUND: there is no such pod. CONFLICT: it has ended, or was
// tampered with.
Result<std::optional<Record>> reach(const Place& place);
// The same, polling until the pod has published itself.
Result<Record> find(const Place& place);
// UNAVAILABLE for good, with its daemon's last words.
Error lost(const Place& place);
bool is_lost(const Error& error);  // whether it says that

// Removes what pods left that never published themselves, and those whose end nobody asked for in time: a status, or
// that they were lost, which counts from when it is first noticed here.
void clean_up(const std::string& pods_dir, std::int64_t now_unix_ms);

}  // namespace sallyport::pod

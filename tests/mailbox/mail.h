// A real daemon with signals whose actions can be counted, a container in it, and its mailbox.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/client.h"
#include "support/daemon.h"

namespace sallyport::testing {

class Mail : public ::testing::Test {
 protected:
  // `fault`: where the daemon kills itself; see base/fault_point.h.
  void start(const std::string& fault = {});
  // The same with a state directory on a tmpfs of its own: "size=4m,nr_inodes=200".
  void start_on_tmpfs(const std::string& tmpfs);
  // After the daemon died or was stopped: a new one on the same state.
  void restart(const std::string& fault = {});
  void try_restart(const std::string& fault);  // it may be over before it is ready
  Daemon& daemon();
  Client connect() { return Client::unix_socket(daemon().socket_path()); }
  // Stops it, and checks that it ended well and that every audit record is where it was.
  void finish();
  void TearDown() override { finish(); }

  // A container whose profile allows the test signals; one waits for commands.
  std::string create(const std::string& name = "agent", const std::string& profile = "mailer");
  const std::string& container() {
    if (container_.empty()) container_ = create();
    return container_;
  }
  // Runs a shell command inside and returns what it wrote; `code` is its exit code.
  std::string run(const std::string& script, int* code = nullptr);

  std::string state_dir() const;
  std::string mailbox(const std::string& container) const { return state_dir() + "/mailbox/" + container; }
  // Renames a message into in/new, as the container would.
  void drop(const std::string& content, const std::string& name = {});
  void drop_in(const std::string& container, const std::string& content, const std::string& name = {});
  static std::string request(const std::string& signal, const std::string& id,
                             const std::string& payload = R"({"text":"hello"})");

  // The reply's whole text; nullopt if there is none now.
  std::optional<std::string> reply(const std::string& id) const;
  // "OK" or the error's code of a final reply; "NONE" if there is none now.
  std::string outcome_now(const std::string& id) const;
  // Waits for a reply that is final and returns "OK" or its error's code; "NONE" if none comes.
  std::string outcome(const std::string& id);
  // Waits for a refusal whose reason contains `text`.
  bool refuses(const std::string& text);
  // Waits until nothing is in in/new.
  bool is_emptied(std::chrono::milliseconds patience = kPatience);
  // How often each key was acted on.
  std::map<std::string, int> actions() const;
  int acted(const std::string& id) const;
  int actions_before(const std::string& key) const;  // "CONTAINER/ID"
  void approve_held() const;
  // Sets the daemon's wall clock ahead of the real one, or back.
  void set_clock(std::chrono::milliseconds ahead) const;

  // The member of mailbox.status about this container.
  std::string status(const std::string& of);
  std::string state_of(const std::string& id);  // in the journal; empty: answered or unknown to it
  // What came of it, in the end: "done", or what the error says; resolves what is unknown.
  std::string settle(const std::string& id);

  std::string container_;
  bool uses_gate_ = false;  // before start(): the real human gate, not one that approves by itself
  std::string config_;      // as it was started

 private:
  DaemonOptions options();
  std::unique_ptr<Daemon> daemon_;
  std::string root_, fault_, tmpfs_;
  int dropped_ = 0;
};

inline std::string id_of(int number) {
  char text[40];
  std::snprintf(text, sizeof text, "00000000-0000-4000-8000-%012d", number);
  return text;
}

}  // namespace sallyport::testing

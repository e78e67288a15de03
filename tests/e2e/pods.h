// Real pods of the real programs, each test in directories of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "os/process.h"
#include "pod/attach.h"
#include "pod/record.h"
#include "support/daemon.h"
#include "support/shell.h"

namespace sallyport::testing {

// A client that attached over the wire and keeps all it was told.
class Attached {
 public:
  // `params` beside the input stream: "\"role\":\"view\"".
  static std::optional<Attached> to(std::unique_ptr<sallyport::Client> client, const std::string& params = "",
                                    Error* refusal = nullptr) {
    Attached attached;
    attached.client = std::move(client);
    if (!attached.client) return std::nullopt;
    attached.told = std::make_shared<Told>();
    attached.client->on_event([told = attached.told](const wire::Message& event) {
      if (event.method == "pod.gap") {
        told->gaps.push_back(static_cast<std::uint32_t>(*event.params.get("output").get("$stream").as_int()));
        told->skipped += event.params.get("skipped").as_uint().value_or(0);
        told->gap_offset = event.params.get("offset").as_uint().value_or(0);
        if (event.params.get("interrupted").as_bool().value_or(false)) ++told->interrupts;
      } else if (event.method == "pod.exit") {
        told->exit_code = static_cast<int>(*event.params.get("exit_code").as_int());
        told->exit_offset = event.params.get("offset").as_uint().value_or(0);
      } else if (event.method == "pod.role") {
        told->role = event.params.get("role").as_string().value_or("");
      }
    });
    attached.input = *attached.client->open_stream();
    auto answer =
        attached.client->call("pod.attach", "{" + params + (params.empty() ? "" : ",") + R"("input":{"$stream":)" +
                                                std::to_string(attached.input) + "}}");
    if (!answer) {
      if (refusal != nullptr) *refusal = answer.error();
      return std::nullopt;
    }
    attached.stream = static_cast<std::uint32_t>(*answer->value().get("output").get("$stream").as_int());
    attached.offset = answer->value().get("offset").as_uint().value_or(0);
    return attached;
  }

  bool type(std::string_view keys) { return bool(client->write_stream(input, as_bytes(keys))); }

  // Takes what came, waiting a moment; false once the stream has ended for good or the connection is gone.
  bool read_some() {
    auto piece = client->read_stream(stream, Millis(50));
    if (piece && !piece->empty()) output += as_text(piece->view());
    if (!piece && piece.error().code == Code::timeout) return true;
    if (piece && !piece->empty()) return true;
    // The end of this stream: another one follows a gap, or an exit does.
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (told->gaps.empty() && !told->exit_code && std::chrono::steady_clock::now() < until) {
      if (!client->dispatch(Millis(50))) return false;
    }
    if (told->gaps.empty()) return false;
    stream = told->gaps.front();
    told->gaps.erase(told->gaps.begin());
    return true;
  }
  bool sees(const std::string& text) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (output.find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > until || !read_some()) return output.find(text) != std::string::npos;
    }
    return true;
  }
  // Reads to the end; true if the exit was told.
  bool reads_to_the_end() {
    const auto until = std::chrono::steady_clock::now() + kPatience * 4;
    while (std::chrono::steady_clock::now() < until && read_some()) {
    }
    return told->exit_code.has_value();
  }

  struct Told {
    std::vector<std::uint32_t> gaps;
    std::uint64_t skipped = 0, exit_offset = 0, gap_offset = 0;
    int interrupts = 0;
    std::optional<int> exit_code;
    std::string role;
  };
  std::unique_ptr<sallyport::Client> client;
  std::shared_ptr<Told> told;
  std::uint32_t input = 0, stream = 0;
  std::uint64_t offset = 0;
  std::string output;
};

class Pods : public ::testing::Test {
 protected:
  std::string environment() const {
    const std::string root = root_.path();
    return "HOME='" + root + "/home' " + places_in(root) + "TERM=xterm " + more_variables_;
  }
  Ran sallyport(const std::string& arguments, const std::string& redirection = "2>&1 </dev/null") {
    const std::string command =
        "cd '" + root_.path() + "/project' && " + environment() + SALLYPORT_CLI " " + arguments + " " + redirection;
    return run_shell(command);
  }

  // A pod that runs a shell script.
  void make(const std::string& name, const std::string& script, const std::string& flags = "") {
    std::ofstream(root_.path() + "/project/" + name + ".sh") << script;
    const Ran ran = sallyport("pod new " + flags + " --name " + name + " -- bash " + name + ".sh");
    ASSERT_EQ(ran.status, 0) << ran.output;
    EXPECT_EQ(ran.output, name + "\n");
  }
  std::string pods_dir() const { return root_.path() + "/state/pods"; }
  pod::Place place(const std::string& name) const { return {pods_dir(), name}; }
  pod::Record record(const std::string& name) {
    auto found = pod::find(place(name));
    EXPECT_TRUE(found) << found.error().describe();
    return found ? *found : pod::Record();
  }
  std::unique_ptr<sallyport::Client> connect(const std::string& name) {
    auto client = pod::connect(record(name));
    EXPECT_TRUE(client) << client.error().describe();
    return client ? std::move(*client) : nullptr;
  }
  std::optional<Attached> attach(const std::string& name, const std::string& params = "", Error* refusal = nullptr) {
    return Attached::to(connect(name), params, refusal);
  }
  // Its output has reached this offset.
  bool has_said(const std::string& name, std::uint64_t offset) {
    const auto client = connect(name);
    return client && eventually([&] {
             const auto status = client->call("pod.status");
             return status && status->value().get("offset").as_uint().value_or(0) >= offset;
           });
  }
  pod::Life life(const std::string& name) const { return pod::look(place(name)).life; }
  bool becomes(const std::string& name, pod::Life wanted) {
    return eventually([&] { return life(name) == wanted; });
  }
  pid_t daemon_pid(const std::string& name) { return static_cast<pid_t>(record(name).binding.pid); }
  pid_t agent_pid(const std::string& name) {
    const auto client = connect(name);
    const auto answer = client->call("pod.status");
    return answer ? static_cast<pid_t>(answer->value().get("agent_pid").as_int().value_or(0)) : 0;
  }
  void kill_warden() {
    const Ran status = sallyport("--json status");
    wire::Decoder decoder;
    const auto document = decoder.parse(status.output);
    ASSERT_TRUE(document) << status.output;
    const auto pid = document->root().get("pid").as_int();
    ASSERT_TRUE(pid) << status.output;
    const auto started = os::process_start_time(static_cast<pid_t>(*pid));
    ASSERT_TRUE(started);
    ::kill(static_cast<pid_t>(*pid), SIGKILL);
    // Not before its lock is free.
    ASSERT_TRUE(eventually([&] { return !os::is_process_alive(static_cast<pid_t>(*pid), *started); }));
  }

  void SetUp() override {
    std::filesystem::create_directories(root_.path() + "/project");
    std::filesystem::create_directories(root_.path() + "/home");
  }
  void TearDown() override {
    for (const auto& [name, seen] : pod::look_at_all(pods_dir())) {
      if (!seen.record || (seen.life != pod::Life::running && seen.life != pod::Life::exited)) continue;
      ::kill(static_cast<pid_t>(seen.record->binding.pid), SIGKILL);
      EXPECT_TRUE(eventually([&, pod = name] { return bool(place(pod).lock()); }));
    }
    sallyport("down");
  }

  // What the ledger has of a method, as JSON; waits for it to have `part`.
  std::string recorded(const std::string& method, const std::string& part) {
    std::string records;
    EXPECT_TRUE(eventually([&] {
      records = sallyport("--json audit query --method " + method).output;
      return records.find(part) != std::string::npos;
    })) << method
        << " without " << part << ": " << records;
    return records;
  }

  TemporaryDirectory root_;
  std::string more_variables_;  // "NAME=value "
};

}  // namespace sallyport::testing

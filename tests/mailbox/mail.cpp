#include "mailbox/mail.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ledger/verification.h"
#include "mailbox/message.h"

namespace sallyport::testing {
namespace {

constexpr const char* kProfile = R"toml(
[profile.mailer]
fs.read  = ["/usr", "/etc", "/opt"]
fs.write = ["${workspace}"]
exec     = ["/usr/**", "${workspace}/**"]
methods  = ["test.*", "fs.*", "signal.raise", "mailbox.status"]
signals  = ["test_note", "test_once", "test_again", "test_deputy", "test_human", "test_both"]
review   = { test_deputy = "deputy", test_human = "human", test_both = ["deputy", "human"] }
rates    = { test_note = "1000000/s" }
env      = { PATH = "/usr/bin:/bin" }

[profile.calm]
fs.read  = ["/usr", "/etc"]
exec     = ["/usr/**"]
methods  = ["signal.raise"]
signals  = ["test_once"]
rates    = { test_once = "2/h" }
env      = { PATH = "/usr/bin:/bin" }

[profile.chatty]
fs.read  = ["/usr", "/etc"]
exec     = ["/usr/**"]
signals  = ["test_note"]
env      = { PATH = "/usr/bin:/bin" }

[profile.sleeper]
fs.read  = ["/usr", "/etc"]
exec     = ["/usr/**"]
signals  = ["slow", "asked", "schedule_task"]
review   = { asked = "human", schedule_task = "human" }
env      = { PATH = "/usr/bin:/bin" }

[profile.breeder]
fs.read  = ["/usr", "/etc"]
exec     = ["/usr/**"]
signals  = ["schedule_task"]
rates    = { schedule_task = "2/h" }
agent    = ["/bin/sh", "-c", "for i in 1 2 3; do printf '{\"prompt\":\"x\",\"schedule\":\"%s\"}' $(date -u -d '+1 second' +%Y-%m-%dT%H:%M:%SZ) | sallyport-signal schedule_task --payload -; done"]
env      = { PATH = "/usr/bin:/bin" }

[profile.planner]
fs.read  = ["/usr", "/etc"]
fs.write = ["${workspace}"]
exec     = ["/usr/**"]
signals  = ["schedule_task"]
agent    = ["/bin/sh", "-c", "echo ran >> runs"]
env      = { PATH = "/usr/bin:/bin" }

[profile.mute]
fs.read  = ["/usr", "/etc"]
exec     = ["/usr/**"]
methods  = ["test.*", "signal.raise"]
env      = { PATH = "/usr/bin:/bin" }
)toml";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

DaemonOptions Mail::options() {
  DaemonOptions options;
  options.config += R"(
[signal.slow]
tier = 2
idempotent = true
action = ["/bin/sh", "-c", "sleep 1000 & wait"]
timeout_ms = 3600000
[signal.asked]
tier = 2
action = ["/usr/bin/env", "KEY={key}"]
)";
  options.program = SALLYPORT_FAULTS_DAEMON;
  options.before_exec = [this] {
    ::setenv("SALLYPORT_FAULT", fault_.c_str(), 1);
    if (uses_gate_) ::setenv("SALLYPORT_TEST_GATE", "1", 1);
    ::setenv("SALLYPORT_TEST_ACTIONS", (root_ + "/actions").c_str(), 1);
    const std::string state = root_ + "/state";
    if (!tmpfs_.empty() &&
        (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
         ::mkdir(state.c_str(), 0700) != 0 ||
         ::mount("tmpfs", state.c_str(), "tmpfs", 0, (tmpfs_ + ",mode=0700").c_str()) != 0)) {
      ::_exit(126);
    }
  };
  return options;
}

void Mail::start(const std::string& fault) {
  fault_ = fault;
  daemon_ = std::make_unique<Daemon>(options());
  root_ = daemon_->root();
  std::filesystem::create_directories(root_ + "/profiles");
  std::filesystem::create_directories(root_ + "/workspace");
  std::ofstream(root_ + "/profiles/test.toml") << kProfile;
  config_ = options().config;
  ASSERT_TRUE(daemon_->start()) << daemon_->log();
}

void Mail::start_on_tmpfs(const std::string& tmpfs) {
  tmpfs_ = tmpfs;
  start();
}

// The tmpfs is seen through the daemon, in whose mount namespace it is.
std::string Mail::state_dir() const {
  const std::string inside = root_ + "/state";
  return tmpfs_.empty() ? inside : "/proc/" + std::to_string(daemon_->pid()) + "/root" + inside;
}

void Mail::restart(const std::string& fault) {
  fault_ = fault;
  ASSERT_TRUE(daemon_->start()) << daemon_->log();
}

void Mail::try_restart(const std::string& fault) {
  fault_ = fault;
  daemon_->start();
}

Daemon& Mail::daemon() {
  if (!daemon_) start();
  return *daemon_;
}

void Mail::finish() {
  if (!daemon_ || daemon_->pid() <= 0) return;
  EXPECT_TRUE(connect().pings()) << "the daemon must go on serving";
  if (!tmpfs_.empty()) {
    Client client = connect();
    const auto answer = client.call("audit.verify", "{}");
    ASSERT_TRUE(answer && !answer->error);
    EXPECT_EQ(answer->result.get("intact").as_bool(), true) << answer->result.to_json();
    EXPECT_EQ(daemon_->stop(), 0);
    return;
  }
  EXPECT_EQ(daemon_->stop(), 0);
  const auto report = ledger::verify_state(state_dir(), {}, {});
  ASSERT_TRUE(report) << report.error().describe();
  EXPECT_TRUE(report->is_intact()) << ledger::to_json(*report);
}

std::string Mail::create(const std::string& name, const std::string& profile) {
  Client client = Client::unix_socket(daemon().socket_path());
  const auto answer = client.call("container.create", R"({"template":")" + profile + R"(","config":{"name":")" + name +
                                                          R"(","workspace":")" + root_ + "/workspace\"}}");
  EXPECT_TRUE(answer && !answer->error) << (answer && answer->error ? answer->error->message : "no answer");
  if (!answer || answer->error) return {};
  return std::string(answer->result.get("container").as_string().value_or(""));
}

std::string Mail::run(const std::string& script, int* code) {
  container();  // and with it, the daemon
  Client client = connect();
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("container", container()).key("command").begin_array();
    json.value("sh").value("-c").value(script).end_array().end_object();
  });
  EXPECT_TRUE(client.send_request("exec", "container.exec", params));
  std::string out;
  while (const auto body = client.next_body()) {
    if (const auto chunk = wire::parse_chunk(as_bytes(*body)); chunk) {
      out += as_text(chunk->data);
      continue;
    }
    auto message = decode(*body);
    if (!message || message->type == wire::MessageType::event) continue;
    if (code != nullptr) *code = static_cast<int>(message->result.get("exit_code").as_int().value_or(-1));
    break;
  }
  return out;
}

void Mail::drop_in(const std::string& to, const std::string& content, const std::string& name) {
  const std::string given = name.empty() ? "m" + std::to_string(++dropped_) : name;
  const std::string from = mailbox(to) + "/in/tmp/" + std::to_string(::getpid()) + ".part";
  std::ofstream(from, std::ios::binary | std::ios::trunc) << content;
  ASSERT_EQ(::rename(from.c_str(), (mailbox(to) + "/in/new/" + given).c_str()), 0);
}

void Mail::drop(const std::string& content, const std::string& name) { drop_in(container(), content, name); }

std::string Mail::request(const std::string& signal, const std::string& id, const std::string& payload) {
  return R"({"signal":")" + signal + R"(","request_id":")" + id + R"(","payload":)" + payload + "}";
}

std::optional<std::string> Mail::reply(const std::string& id) const {
  std::string text = read_file(mailbox(container_) + "/out/" + id + ".json");
  if (text.empty()) return std::nullopt;
  return text;
}

std::string Mail::outcome_now(const std::string& id) const {
  const auto text = reply(id);
  if (!text) return "NONE";
  wire::Decoder decoder;
  const auto document = decoder.parse(*text);
  if (!document) return "NONE";
  const wire::Value root = document->root();
  if (const wire::Value error = root.get("error")) return std::string(error.get("code").as_string().value_or(""));
  return root.get("result").get("final").as_bool().value_or(true) ? "OK" : "NONE";
}

std::string Mail::outcome(const std::string& id) {
  std::string code = "NONE";
  eventually([&] { return (code = outcome_now(id)) != "NONE"; });
  return code;
}

std::string Mail::status(const std::string& of) {
  Client client = connect();
  const auto answer = client.call("mailbox.status", R"({"container":")" + of + "\"}");
  if (!answer || answer->error) return {};
  for (const wire::Value item : answer->result.get("mailboxes").items()) return item.to_json();
  return {};
}

bool Mail::refuses(const std::string& text) {
  return eventually([&] {
    wire::Decoder decoder;
    const std::string json = status(container());
    const auto document = decoder.parse(json);
    if (!document) return false;
    for (const wire::Value refused : document->root().get("quarantine").items()) {
      const std::string line = std::string(refused.get("code").as_string().value_or("")) + ": " +
                               std::string(refused.get("reason").as_string().value_or(""));
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  });
}

bool Mail::is_emptied(std::chrono::milliseconds patience) {
  return eventually([&] { return std::filesystem::is_empty(mailbox(container()) + "/in/new"); }, patience);
}

std::map<std::string, int> Mail::actions() const {
  std::map<std::string, int> counts;
  std::ifstream file(root_ + "/actions");
  for (std::string signal, key; file >> signal >> key;) ++counts[key];
  return counts;
}

int Mail::acted(const std::string& id) const {
  const auto counts = actions();
  const auto found = counts.find(container_ + "/" + id);
  return found == counts.end() ? 0 : found->second;
}

int Mail::actions_before(const std::string& wanted) const {
  std::ifstream file(root_ + "/actions");
  int before = 0;
  for (std::string signal, key; file >> signal >> key && key != wanted;) ++before;
  return before;
}

void Mail::approve_held() const { std::ofstream(root_ + "/actions.approve") << "yes"; }

void Mail::set_clock(std::chrono::milliseconds ahead) const {
  // In one step: the daemon must not read half a number.
  std::ofstream(root_ + "/actions.clock.new") << ahead.count();
  ASSERT_EQ(::rename((root_ + "/actions.clock.new").c_str(), (root_ + "/actions.clock").c_str()), 0);
}

std::string Mail::state_of(const std::string& id) {
  wire::Decoder decoder;
  const std::string json = status(container_);
  const auto document = decoder.parse(json);
  if (!document) return {};
  for (const wire::Value request : document->root().get("pending").items()) {
    if (request.get("request_id").as_string() == id) return std::string(request.get("state").as_string().value_or(""));
  }
  return {};
}

std::string Mail::settle(const std::string& id) {
  std::string state;
  eventually([&] {
    state = state_of(id);
    return state == "unknown" || outcome_now(id) != "NONE";
  });
  if (state != "unknown") return outcome(id);
  Client client = connect();
  const std::string resolved = client.outcome(
      "mailbox.resolve", R"({"container":")" + container_ + R"(","request_id":")" + id + R"(","outcome":"failed"})");
  EXPECT_EQ(resolved, "OK");
  return "unknown, then " + outcome(id);
}

}  // namespace sallyport::testing

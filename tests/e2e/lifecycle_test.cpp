// Start, reload, stop, crash: with other wardens, other files and other users in the way.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "door.h"
#include "support/attacker.h"

namespace sallyport::testing {
namespace {

using std::chrono::milliseconds;

class LifeCycle : public Door {
 protected:
  static constexpr const char* kPatientEnd = "[warden]\ndrain_timeout_ms = 30000\n";
  bool socket_exists() { return ::access(daemon().socket_path().c_str(), F_OK) == 0; }
  // Does not start, says why, and ends with that status.
  static void expect_no_start(Daemon& refused, const std::string& why, int status = 1) {
    EXPECT_FALSE(refused.start());
    EXPECT_EQ(refused.wait(), status);
    EXPECT_NE(refused.log().find(why), std::string::npos) << refused.log();
  }
};

TEST_F(LifeCycle, SigtermAndSigintEndItWell) {
  for (const int number : {SIGTERM, SIGINT}) {
    start();
    Client client = connect();
    ASSERT_TRUE(client.pings());
    daemon().signal(number);
    EXPECT_EQ(daemon().wait(), 0);
    EXPECT_TRUE(client.is_closed_by_peer());
    EXPECT_FALSE(socket_exists());
  }
}

TEST_F(LifeCycle, AShutdownRequestIsAnsweredBeforeTheEnd) {
  Client client = connect();
  EXPECT_EQ(client.outcome("warden.shutdown"), "OK");
  EXPECT_EQ(client.next_body(), std::nullopt);
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(LifeCycle, AGracefulShutdownDrainsWhatIsInFlight) {
  start_with(kPatientEnd);
  Client client = connect();
  ASSERT_TRUE(client.send_request("work", "test.sleep", R"({"ms":2000})"));
  ASSERT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"in_flight"}) == 2; }));
  daemon().signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return !connect(); })) << "nobody new comes in";
  EXPECT_EQ(code_of(client.next_message()), "OK") << "but what was begun is finished";
  EXPECT_EQ(client.next_body(), std::nullopt);
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(LifeCycle, AGracefulShutdownSendsWhatIsLeftOfAStream) {
  Client client = connect();
  const auto answer = client.call("test.echo", R"({"data":{"$stream":1}})");
  ASSERT_EQ(code_of(answer), "OK");
  const std::int64_t echo = answer->result.get("data").get("$stream").as_int().value_or(0);
  // All of its credit, and more than the echo has credit for.
  const std::string half(wire::kInitialCredit / 2, 'h');
  ASSERT_TRUE(client.send(chunk_frame(1, half) + chunk_frame(1, half)));
  std::size_t echoed = 0;
  const auto read_until = [&](std::size_t wanted) {
    while (echoed < wanted) {
      const auto body = client.next_body();
      if (!body) break;
      if (body->front() == 1) echoed += body->size() - wire::kChunkHeaderBytes;
    }
    return echoed;
  };
  ASSERT_EQ(read_until(2 * half.size()), 2 * half.size());
  // Beside grants.
  const auto is_answered = [&](const std::string& part) {
    for (auto body = client.next_body(); body; body = client.next_body()) {
      if (body->find("response") != std::string::npos) return body->find(part) != std::string::npos;
    }
    return false;
  };
  ASSERT_TRUE(client.send(chunk_frame(1, half) + chunk_frame(1, "") + request_frame("come", "test.ping")));
  ASSERT_TRUE(is_answered("pong"));
  daemon().signal(SIGTERM);
  ASSERT_TRUE(daemon().logs("stopping"));
  ASSERT_TRUE(client.send(request_frame("late", "test.ping")));
  EXPECT_TRUE(is_answered("UNAVAILABLE"));
  ASSERT_TRUE(client.send(frame_of(R"({"type":"event","method":"stream.credit","params":{"stream":)" +
                                   std::to_string(echo) + ",\"bytes\":" + std::to_string(half.size()) + "}}")));
  EXPECT_EQ(read_until(3 * half.size()), 3 * half.size());
  EXPECT_TRUE(client.next_body()) << "its end";
  EXPECT_EQ(client.next_body(), std::nullopt);
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(LifeCycle, AShutdownDoesNotWaitForEver) {
  start_with("[warden]\ndrain_timeout_ms = 200\n");
  Client client = connect();
  ASSERT_TRUE(client.send_request("endless", "test.sleep", R"({"ms":60000})"));
  ASSERT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"in_flight"}) == 2; }));
  EXPECT_EQ(daemon().stop(), 0);
  EXPECT_NE(daemon().log().find("cut off"), std::string::npos) << daemon().log();
}

TEST_F(LifeCycle, AShutdownBehindAFullConnectionEndsWell) {
  start_with("[warden]\ndrain_timeout_ms = 200\n");
  Client client = connect();
  std::string all;
  for (std::size_t i = 0; i < wire::kMaxInFlight + 5; ++i) {
    all += request_frame(std::to_string(i), "test.sleep", R"({"ms":60000})");
  }
  ASSERT_TRUE(client.send(all));
  ASSERT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"in_flight"}) > 256; }));
  EXPECT_EQ(daemon().stop(), 0);
}

TEST_F(LifeCycle, AShutdownWithClientsThatDoNotReadEndsWell) {
  start_with("[warden]\ndrain_timeout_ms = 200\n");
  Client client = connect();
  const std::string echo = request_frame("e", "test.echo", R"({"data":")" + std::string(900'000, 'z') + "\"}");
  for (int i = 0; i < 40; ++i) client.send_some(echo);
  EXPECT_TRUE(connect().pings());
  EXPECT_EQ(daemon().stop(), 0);
}

// ---- reload ----

TEST_F(LifeCycle, SighupTakesUpAGoodConfiguration) {
  ASSERT_EQ(connect().outcome("test.echo", R"({"data":1})"), "OK");
  daemon().write_config("[host]\nmethods = [\"test.ping\", \"warden.*\"]\n");
  daemon().signal(SIGHUP);
  EXPECT_TRUE(daemon().logs("reloaded"));
  EXPECT_EQ(connect().outcome("test.echo", R"({"data":1})"), "POLICY_DENIED");
}

TEST_F(LifeCycle, SighupWithABadConfigurationKeepsTheOldOneAndSaysSo) {
  start_with("[host]\nmethods = [\"test.ping\", \"warden.*\"]\n");
  daemon().write_config("[host]\nmethods = [\"*\"]\nmethodz = 1\n");
  daemon().signal(SIGHUP);
  ASSERT_TRUE(daemon().logs("the old configuration stays in force"));
  Client client = connect();
  EXPECT_EQ(client.outcome("test.echo", R"({"data":1})"), "POLICY_DENIED");
  const auto status = client.call("warden.status");
  ASSERT_EQ(code_of(status), "OK");
  EXPECT_EQ(status->result.get("config").get("ok").as_bool(), false);
  const std::string error(status->result.get("config").get("error").as_string().value_or(""));
  EXPECT_NE(error.find("sallyport.toml:3:1"), std::string::npos) << error;
  EXPECT_NE(error.find("methodz"), std::string::npos) << error;
  daemon().write_config("[host]\nmethods = [\"*\"]\n");
  ASSERT_EQ(client.outcome("warden.reload"), "OK");
  EXPECT_EQ(client.outcome("test.echo", R"({"data":1})"), "OK");
  const auto after = client.call("warden.status");
  EXPECT_EQ(after->result.get("config").get("ok").as_bool(), true);
}

TEST_F(LifeCycle, AReloadRequestAnswersWithTheFault) {
  daemon().write_config("[warden]\nidle_timeout_ms = \"soon\"\n");
  Client client = connect();
  const auto answer = client.call("warden.reload");
  ASSERT_EQ(code_of(answer), "INVALID_PARAMS");
  EXPECT_NE(answer->error->message.find("sallyport.toml:2:19"), std::string::npos) << answer->error->message;
}

TEST_F(LifeCycle, ABadConfigurationAtTheStartIsItsLastWord) {
  Daemon refused({.config = "[warden]\nidle_timeout_ms = 0\n"});
  expect_no_start(refused, "sallyport.toml:2:19");
}

TEST_F(LifeCycle, NoConfigurationAtAllIsTheDefault) {
  daemon_ = std::make_unique<Daemon>();
  ASSERT_EQ(::unlink(daemon_->config_file().c_str()), 0);
  ASSERT_TRUE(daemon_->start());
  EXPECT_TRUE(connect().pings());
}

// ---- two wardens, dead wardens ----

TEST_F(LifeCycle, ASecondWardenIsRefusedWhileTheFirstLives) {
  Client client = connect();
  ASSERT_TRUE(client.pings());
  Daemon second({.runtime_dir = daemon().runtime_dir()});
  expect_no_start(second, "another warden is running", 75);
  EXPECT_TRUE(client.pings()) << "the first never noticed";
  EXPECT_TRUE(connect().pings()) << "and its socket is still its own";
}

TEST_F(LifeCycle, AWardenKilledAtAnyMomentIsReplacedWithoutAHuman) {
  daemon_ = std::make_unique<Daemon>();
  for (std::size_t i = 0; i < scaled(30) + 3; ++i) {
    ASSERT_TRUE(daemon_->start()) << daemon_->log();
    Client client = connect();
    client.send_request("1", "test.sleep", R"({"ms":60000})");
    if (i % 3 == 1) {
      ASSERT_TRUE(client.pings());
    }
    if (i % 3 == 2) std::this_thread::sleep_for(milliseconds(3));
    daemon_->kill_now();
    EXPECT_TRUE(client.is_closed_by_peer());
    EXPECT_TRUE(socket_exists()) << "a stale socket, which the next one replaces";
  }
  ASSERT_TRUE(daemon_->start());
}

TEST_F(LifeCycle, AWardenKilledWhileStartingIsReplacedWithoutAHuman) {
  daemon_ = std::make_unique<Daemon>();
  for (int delay_us = 0; delay_us < 8000; delay_us += 400) {
    // Not waiting for readiness: killed somewhere between exec and the open door.
    std::thread killer([&] {
      eventually([&] { return daemon_->pid() > 0; });
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
      ::kill(daemon_->pid(), SIGKILL);
    });
    daemon_->start();
    killer.join();
    daemon_->kill_now();
  }
  ASSERT_TRUE(daemon_->start()) << daemon_->log();
}

TEST_F(LifeCycle, AWardenWhoseDirectoryIsRemovedStops) {
  ASSERT_TRUE(connect().pings());
  std::filesystem::remove_all(daemon().runtime_dir());
  EXPECT_EQ(daemon().wait(), 0);
}

// It is stopping, as soon as it looks: 75 is what commands wait for, where they would fail otherwise.
TEST_F(LifeCycle, TheNextOneIsToldToWaitForAWardenWhoseDirectoryIsRemoved) {
  daemon().signal(SIGSTOP);
  std::filesystem::remove_all(daemon().runtime_dir());
  const std::string state = daemon().root() + "/state";
  Daemon next({.runtime_dir = daemon().runtime_dir(),
               .before_exec = [state] { ::setenv("SALLYPORT_STATE_DIR", state.c_str(), 1); }});
  EXPECT_FALSE(next.start());
  EXPECT_EQ(next.wait(), 75);
  daemon().signal(SIGCONT);
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(LifeCycle, AWardenWhoseLockIsRemovedStopsAndLeavesTheNextOneAlone) {
  start_with(kPatientEnd);
  // Something is in flight, so that the first is still there when the next one comes.
  Client client = connect();
  ASSERT_TRUE(client.send_request("work", "test.sleep", R"({"ms":2000})"));
  ASSERT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"in_flight"}) == 2; }));
  ASSERT_EQ(::unlink((daemon().runtime_dir() + "/warden.lock").c_str()), 0);
  Daemon next({.runtime_dir = daemon().runtime_dir()});
  ASSERT_TRUE(next.start());
  EXPECT_EQ(code_of(client.next_message()), "OK") << "what was begun is finished";
  EXPECT_EQ(daemon().wait(), 0);
  EXPECT_TRUE(connect().pings()) << "the next one's socket is there";
}

TEST_F(LifeCycle, AStaleSocketIsReplaced) {
  daemon_ = std::make_unique<Daemon>();
  ASSERT_EQ(::mkdir(daemon_->runtime_dir().c_str(), 0700), 0);
  {
    const UniqueFd dead{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, daemon_->socket_path().c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ASSERT_FALSE(connect());
  ASSERT_TRUE(daemon_->start()) << daemon_->log();
  EXPECT_TRUE(connect().pings());
}

// ---- what may be in the way ----

TEST_F(LifeCycle, ASymlinkInTheSocketsPlaceIsAnError) {
  Daemon refused;
  ASSERT_EQ(::mkdir(refused.runtime_dir().c_str(), 0700), 0);
  const std::string target = refused.root() + "/target";
  ASSERT_EQ(::symlink(target.c_str(), refused.socket_path().c_str()), 0);
  expect_no_start(refused, "is not a socket");
  EXPECT_NE(::access(target.c_str(), F_OK), 0) << "nothing was made where it points";
}

TEST_F(LifeCycle, AFileInTheSocketsPlaceIsAnErrorAndKept) {
  Daemon refused;
  ASSERT_EQ(::mkdir(refused.runtime_dir().c_str(), 0700), 0);
  ::close(::open(refused.socket_path().c_str(), O_CREAT | O_WRONLY, 0600));
  expect_no_start(refused, "is not a socket");
  EXPECT_EQ(::access(refused.socket_path().c_str(), F_OK), 0);
}

TEST_F(LifeCycle, ASymlinkInTheDirectorysPlaceIsAnError) {
  Daemon refused;
  ASSERT_EQ(::mkdir((refused.root() + "/elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("elsewhere", refused.runtime_dir().c_str()), 0);
  expect_no_start(refused, "symbolic link");
}

TEST_F(LifeCycle, ASymlinkInTheLocksPlaceIsAnError) {
  Daemon refused;
  ASSERT_EQ(::mkdir(refused.runtime_dir().c_str(), 0700), 0);
  ASSERT_EQ(::symlink("/etc/hostname", (refused.runtime_dir() + "/warden.lock").c_str()), 0);
  expect_no_start(refused, "lock");
}

TEST_F(LifeCycle, ADirectoryThatOthersMayEnterIsAnError) {
  Daemon refused;
  ASSERT_EQ(::mkdir(refused.runtime_dir().c_str(), 0700), 0);
  ASSERT_EQ(::chmod(refused.runtime_dir().c_str(), 0750), 0);
  expect_no_start(refused, "open to other users");
}

TEST_F(LifeCycle, ADirectoryOfSomebodyElseIsAnError) {
  if (!is_root()) GTEST_SKIP() << "only root can give a directory away";
  Daemon refused;
  ASSERT_EQ(::mkdir(refused.runtime_dir().c_str(), 0700), 0);
  ASSERT_EQ(::chown(refused.runtime_dir().c_str(), kOrdinaryUid, kOrdinaryUid), 0);
  expect_no_start(refused, "belongs to another user");
}

TEST_F(LifeCycle, ASocketPathOfMoreThanAHundredAndEightBytesWorks) {
  TemporaryDirectory base;
  std::string deep = base.path();
  for (int i = 0; i < 8; ++i) deep += "/" + std::string(60, static_cast<char>('a' + i));
  start({.runtime_dir = deep});
  ASSERT_GT(daemon().socket_path().size(), 500U);
  EXPECT_TRUE(connect().pings());
  EXPECT_EQ(daemon().stop(), 0);
  EXPECT_FALSE(socket_exists());
}

// ---- log and command line ----

TEST_F(LifeCycle, LogLinesAreKeyAndValueByDefault) {
  EXPECT_EQ(connect().outcome("no.such.method"), "METHOD_NOT_FOUND");
  ASSERT_TRUE(daemon().logs("METHOD_NOT_FOUND"));
  std::istringstream lines(daemon().log());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.size() > 25 && line[10] == 'T' && line[23] == 'Z' && line[24] == ' ') << line;
  }
  EXPECT_TRUE(daemon().logs("info ready socket=" + daemon().socket_path() + " pid=" + std::to_string(daemon().pid())));
  EXPECT_TRUE(daemon().logs("request=call-1 method=no.such.method"));
}

TEST_F(LifeCycle, LogLinesAreJsonWhenAskedFor) {
  start({.arguments = {"--log-format", "json"}});
  EXPECT_EQ(connect().outcome("evil\"},{\"x"), "METHOD_NOT_FOUND");
  Client client = connect();
  client.send(header_of(0));
  ASSERT_TRUE(daemon().logs("broke the protocol"));
  std::istringstream lines(daemon().log());
  wire::Decoder decoder;
  for (std::string line; std::getline(lines, line);) {
    const auto document = decoder.parse(line);
    ASSERT_TRUE(document) << line;
    EXPECT_TRUE(document->root().get("time").is_string()) << line;
    EXPECT_TRUE(document->root().get("level").is_string()) << line;
    EXPECT_TRUE(document->root().get("event").is_string()) << line;
  }
}

TEST_F(LifeCycle, AQuietLogSaysOnlyWhatWasAskedFor) {
  start({.arguments = {"--log-level", "error"}});
  EXPECT_TRUE(connect().pings());
  EXPECT_EQ(daemon().stop(), 0);
  EXPECT_EQ(daemon().log(), "");
}

TEST_F(LifeCycle, WrongUsageIsStatusTwo) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--no-such-option"},
                                                    {"--log-level"},
                                                    {"--log-level", "loud"},
                                                    {"--log-format", "xml"},
                                                    {"--ready-fd", "many"},
                                                    {"stray"}}) {
    Daemon wrong({.arguments = arguments});
    EXPECT_FALSE(wrong.start());
    EXPECT_EQ(wrong.wait(), 2) << arguments[0];
    EXPECT_NE(wrong.log().find("Usage:"), std::string::npos) << wrong.log();
  }
}

}  // namespace
}  // namespace sallyport::testing

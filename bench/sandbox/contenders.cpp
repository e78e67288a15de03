#include "contenders.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "os/packets.h"

extern char** environ;

namespace sallyport::bench {
namespace {

using Clock = std::chrono::steady_clock;

double micros_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "bench sandbox: %s\n", what.c_str());
  std::exit(1);
}

}  // namespace

double time_spawn(const Words& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const auto start = Clock::now();
  pid_t pid = -1;
  if (::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) give_up("cannot run " + command[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  const double elapsed = micros_since(start);
  if (status != 0) give_up(command[0] + " failed");
  return elapsed;
}

LauncherUnderTest::LauncherUnderTest(const std::string& program) : null_(::open("/dev/null", O_RDWR | O_CLOEXEC)) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) give_up("socketpair");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(pair[1], 3);
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(pair[1]);
  socket_ = UniqueFd(pair[0]);
}

LauncherUnderTest::~LauncherUnderTest() {
  socket_.reset();
  ::waitpid(pid_, nullptr, 0);
}

sandbox::FromLauncher LauncherUnderTest::next() {
  auto packet = os::receive_packet(socket_.get(), 0);
  if (!packet || packet->bytes.empty()) give_up("the launcher is gone");
  auto notice = sandbox::decode_notice(packet->bytes.view());
  if (!notice) give_up("the launcher speaks in tongues");
  if (const auto* failed = std::get_if<sandbox::LaunchFailed>(&*notice))
    give_up(failed->message + " " + failed->detail);
  return *notice;
}

void LauncherUnderTest::ask(const sandbox::ToLauncher& request, bool with_streams) {
  const auto packet = sandbox::encode(request);
  const std::vector<int> streams(with_streams ? 3 : 0, null_.get());
  if (!packet || !os::send_packet(socket_.get(), *packet, streams, 0)) give_up("cannot ask the launcher");
}

double LauncherUnderTest::time_launch(const sandbox::Spec& spec) {
  const auto start = Clock::now();
  ask(sandbox::LaunchRequest{++last_, spec}, true);
  while (!std::holds_alternative<sandbox::JobExited>(next())) {
  }
  const double elapsed = micros_since(start);
  while (!std::holds_alternative<sandbox::Ended>(next())) {
  }
  return elapsed;
}

void LauncherUnderTest::start(const sandbox::Spec& spec) {
  ask(sandbox::LaunchRequest{++last_, spec}, true);
  init_ = std::get<sandbox::Launched>(next()).pid;
}

void LauncherUnderTest::stop() {
  ask(sandbox::KillRequest{last_}, false);
  while (!std::holds_alternative<sandbox::Ended>(next())) {
  }
}

double LauncherUnderTest::time_exec(const Words& command) {
  const auto start = Clock::now();
  ask(sandbox::ExecRequest{last_, 1, command, {"PATH=/usr/bin", "HOME=/tmp", "LANG=C"}, ""}, true);
  for (;;) {
    const auto notice = next();
    const auto* exited = std::get_if<sandbox::JobExited>(&notice);
    if (exited == nullptr) continue;
    if (exited->wait_status != 0) give_up(command[0] + " failed inside");
    return micros_since(start);
  }
}

long LauncherUnderTest::init_pss_kib() const {
  std::ifstream rollup("/proc/" + std::to_string(init_) + "/smaps_rollup");
  for (std::string word; rollup >> word;) {
    long value = 0;
    if (word == "Pss:" && rollup >> value) return value;
  }
  return -1;
}

}  // namespace sallyport::bench

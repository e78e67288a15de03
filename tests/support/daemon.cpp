#include "support/daemon.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/unique_fd.h"

namespace sallyport::testing {
namespace {

int status_of(int raw) { return WIFEXITED(raw) ? WEXITSTATUS(raw) : -WTERMSIG(raw); }

void place(int fd, int target) {
  if (fd >= 0) ::dup2(fd, target);
}

// Who has locked this file, as the kernel says.
pid_t holder_of(const std::filesystem::path& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) != 0) return -1;
  std::array<char, 64> place{};
  std::snprintf(place.data(), place.size(), "%02x:%02x:%lu", major(info.st_dev), minor(info.st_dev), info.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, strictness, mode, where;
    pid_t pid = -1;
    if (words >> number >> kind >> strictness >> mode >> pid >> where && where == place.data()) return pid;
  }
  return -1;
}

// A number of a process, out of a file of /proc; 0 if it is gone.
std::int64_t number_of(pid_t pid, const char* file, std::string_view field) {
  std::ifstream numbers("/proc/" + std::to_string(pid) + "/" + file);
  for (std::string line; std::getline(numbers, line);) {
    if (line.starts_with(field)) return std::atoll(line.c_str() + field.size());
  }
  return 0;
}

void end_holder_of(const std::filesystem::path& lock) {
  const pid_t pid = holder_of(lock);
  const UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  // Looked at again: now it is this process that is meant, whatever becomes of its number.
  if (!process || holder_of(lock) != pid) return;
  ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  pollfd ended{process.get(), POLLIN, 0};
  ::poll(&ended, 1, static_cast<int>(kPatience.count()));
}

}  // namespace

bool eventually(const std::function<bool()>& claim, std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!claim()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

TemporaryDirectory::TemporaryDirectory() {
  const char* base = std::getenv("TMPDIR");
  path_ = std::string(base != nullptr && *base == '/' ? base : "/tmp") + "/sallyport-test-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) std::abort();
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  // A command may have started a warden there that nobody stopped, or that is still busy with its end.
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) {
    end_holder_of(entry.path() / "warden.lock");
  }
  std::filesystem::remove_all(path_, ignored);
}

std::int64_t peak_kib(pid_t pid) { return number_of(pid, "status", "VmHWM:"); }

std::int64_t own_kib(pid_t pid) { return number_of(pid, "smaps_rollup", "Anonymous:"); }

int in_child(const std::function<int()>& work) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(work());
  }
  int raw = 0;
  while (::waitpid(pid, &raw, 0) < 0 && errno == EINTR) {
  }
  return status_of(raw);
}

Daemon::Daemon(DaemonOptions options) : options_(std::move(options)) { write_config(options_.config); }

Daemon::~Daemon() {
  kill_now();
  if (::testing::Test::HasFailure()) std::fprintf(stderr, "---- sallyportd said:\n%s----\n", log().c_str());
}

std::string Daemon::runtime_dir() const {
  return options_.runtime_dir.empty() ? root() + "/run" : options_.runtime_dir;
}

void Daemon::write_config(const std::string& text) const { std::ofstream(config_file(), std::ios::trunc) << text; }

std::string Daemon::log() const {
  std::ifstream file(root() + "/stderr");
  return {std::istreambuf_iterator<char>(file), {}};
}

bool Daemon::logs(const std::string& text) const {
  return eventually([&] { return log().find(text) != std::string::npos; });
}

void Daemon::exec_child(int ready_fd) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Tests stop it, and the kernel hangs up a group that has something stopped in it when the group becomes an orphan:
  // without a terminal that happens to the group of all tests.
  ::setpgid(0, 0);
  const int log_fd = ::open((root() + "/stderr").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  place(log_fd, STDERR_FILENO);
  place(options_.stdin_fd, STDIN_FILENO);
  place(options_.stdout_fd, STDOUT_FILENO);
  ::fcntl(ready_fd, F_SETFD, 0);
  ::setenv("SALLYPORT_RUNTIME_DIR", runtime_dir().c_str(), 1);
  ::setenv("SALLYPORT_STATE_DIR", (root() + "/state").c_str(), 1);
  ::setenv("SALLYPORT_CONFIG", config_file().c_str(), 1);
  const std::string program = options_.program.empty() ? SALLYPORT_DAEMON : options_.program;
  std::vector<std::string> words = {program, "--ready-fd", std::to_string(ready_fd)};
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (options_.before_exec) options_.before_exec();
  ::execv(program.c_str(), arguments.data());
  ::_exit(127);
}

bool Daemon::start() {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return false;
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) exec_child(ready[1]);
  ::close(ready[1]);
  pollfd waiting{ready[0], POLLIN, 0};
  char byte = 0;
  const bool is_ready =
      ::poll(&waiting, 1, static_cast<int>(kPatience.count())) == 1 && ::read(ready[0], &byte, 1) == 1 && byte == '1';
  ::close(ready[0]);
  return is_ready;
}

bool Daemon::is_running() { return pid_ > 0 && ::kill(pid_, 0) == 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0; }

void Daemon::signal(int number) const {
  ASSERT_GT(pid_, 0);
  ::kill(pid_, number);
}

std::optional<int> Daemon::wait() {
  int raw = 0;
  if (pid_ <= 0 || !eventually([&] { return ::waitpid(pid_, &raw, WNOHANG) == pid_; })) return std::nullopt;
  pid_ = -1;
  return status_of(raw);
}

std::optional<int> Daemon::stop() {
  signal(SIGTERM);
  return wait();
}

void Daemon::kill_now() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace sallyport::testing

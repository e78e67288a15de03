#include "fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sallyport::sandbox {
namespace {

namespace fs = std::filesystem;

void become_ordinary() {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0 ||
      ::setresuid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0) {
    ::_exit(98);
  }
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // as a program that such a user starts
}

// Until the clock that ticks has passed this moment: a file may be dated by one that does not.
void let_a_tick_pass() {
  const auto now = [](clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::pair(time.tv_sec, time.tv_nsec);
  };
  for (const auto then = now(CLOCK_REALTIME); now(CLOCK_REALTIME_COARSE) <= then;) ::usleep(500);
}

void write_report(const std::string& path, const Result<ExitReport>& result) {
  std::ofstream out(path);
  if (!result) {
    out << "error " << result.error().describe() << "\n";
    return;
  }
  out << "code " << result->exit_code() << "\n";
  out << "protections " << result->protections.to_json() << "\n";
  for (const auto& violation : result->violations) out << "violation " << violation.operation << "\n";
  for (const auto& refusal : result->refusals) {
    out << "refused " << refusal.operation << " " << refusal.target << " " << refusal.rule << "\n";
  }
  for (const auto& path_found : result->scan.quarantined) out << "quarantined " << path_found << "\n";
  for (const auto& path_found : result->scan.suspicious) out << "suspicious " << path_found << "\n";
  for (const auto& sentence : result->scan.notes) out << "note " << sentence << "\n";
  for (const auto& sentence : result->missed) out << "missed " << sentence << "\n";
  for (const auto& path_found : result->lost_mounts) out << "lost " << path_found << "\n";
  for (const auto& path_found : result->uncovered) out << "uncovered " << path_found << "\n";
  for (const auto& path_found : result->removed) out << "removed " << path_found << "\n";
  for (const auto& path_found : result->findings.masks) out << "masked " << path_found << "\n";
  for (const auto& path_found : result->findings.tracked_secrets) out << "tracked " << path_found << "\n";
  for (const auto& path_found : result->findings.changed_secrets) out << "changed " << path_found << "\n";
  for (const auto& path_found : result->findings.unread_indexes) out << "unread " << path_found << "\n";
  for (const auto& sentence : remarks(result->findings)) out << "remark " << sentence << "\n";
  if (result->was_over_memory) out << "over memory\n";
  if (result->was_over_time) out << "over time\n";
  for (const std::string& what : result->restored) out << "restored " << what << "\n";
  for (const std::string& what : result->unrestored) out << "unrestored " << what << "\n";
}

}  // namespace

std::string to_string(StartedBy by) { return by == StartedBy::root ? "root" : "user"; }

bool Outcome::reports(const std::string& line) const {
  return std::find(report.begin(), report.end(), line) != report.end();
}

testing::AssertionResult is_refused(const Outcome& outcome) {
  if (!outcome.has_started) return testing::AssertionFailure() << "the sandbox did not start: " << outcome.error;
  if (outcome.code == kProbeRefused || outcome.code == 128 + SIGSYS) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "status " << outcome.code << ", output: " << outcome.output;
}

void SandboxTest::SetUp() {
  std::string pattern = "/tmp/sallyport-test-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  base_ = pattern;
  ASSERT_EQ(::chmod(base_.c_str(), 0755), 0);
  by_ = ::geteuid() == 0 ? StartedBy::root : StartedBy::user;
}

void SandboxTest::TearDown() {
  std::error_code ignored;
  fs::remove_all(base_, ignored);
}

void SandboxTest::start_as(StartedBy by) {
  if (by == StartedBy::root && ::geteuid() != 0) GTEST_SKIP() << "needs root";
  by_ = by;
  workspace_ = make_directory("workspace");
  home_ = make_directory("home");
  probe_ = workspace_ + "/sp_probe";
  fs::copy_file(SP_PROBE, probe_, fs::copy_options::overwrite_existing);
  own(probe_);
}

void SandboxTest::own(const std::string& path) const {
  if (by_ == StartedBy::user && ::geteuid() == 0) {
    ASSERT_EQ(::lchown(path.c_str(), kOrdinaryUser, kOrdinaryUser), 0) << path;
  }
}

std::string SandboxTest::make_directory(const std::string& path) {
  std::string full = base_;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, '/');) {
    full += "/" + part;
    if (::mkdir(full.c_str(), 0755) == 0) own(full);
  }
  return full;
}

std::string SandboxTest::write(const std::string& path, const std::string& text) {
  if (const std::size_t slash = path.rfind('/'); slash != std::string::npos) make_directory(path.substr(0, slash));
  const std::string full = base_ + "/" + path;
  std::ofstream(full) << text;
  own(full);
  return full;
}

std::string SandboxTest::read(const std::string& path) const {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool SandboxTest::exists(const std::string& path) const {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

void SandboxTest::host(const std::string& script) const {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (by_ == StartedBy::user && ::geteuid() == 0) become_ordinary();
    if (::chdir(workspace_.c_str()) != 0) ::_exit(97);
    ::setenv("HOME", home_.c_str(), 1);
    ::execl("/bin/bash", "bash", "-ec", script.c_str(), nullptr);
    ::_exit(96);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ASSERT_EQ(status, 0) << script;
  let_a_tick_pass();
}

Spec SandboxTest::spec() const {
  Spec spec;
  spec.workspace = workspace_;
  spec.home = home_;
  spec.read = {"/usr", "/etc", "/opt"};
  spec.deny = {"/etc/shadow", "/etc/gshadow"};
  spec.exec = {"/usr", workspace_};
  spec.environment = {"PATH=/usr/local/bin:/usr/bin:/bin",
                      "HOME=" + home_,
                      "LANG=C.UTF-8",
                      "GIT_AUTHOR_NAME=a",
                      "GIT_AUTHOR_EMAIL=a@example.org",
                      "GIT_COMMITTER_NAME=a",
                      "GIT_COMMITTER_EMAIL=a@example.org"};
  return spec;
}

Outcome SandboxTest::run(const Spec& spec, const ForegroundOptions& options) {
  return run_in_child(spec, options, [] {});
}

Outcome SandboxTest::run(const Spec& spec, const std::function<void()>& in_the_launching_process) {
  return run_in_child(spec, {}, in_the_launching_process);
}

Outcome SandboxTest::attack(const std::vector<std::string>& words) {
  Spec attacked = spec();
  attacked.command = {probe_};
  attacked.command.insert(attacked.command.end(), words.begin(), words.end());
  return run(attacked);
}

Outcome SandboxTest::shell(const std::string& script) {
  Spec attacked = spec();
  attacked.command = {"bash", "-c", script};
  return run(attacked);
}

Outcome SandboxTest::run_in_child(const Spec& spec, const ForegroundOptions& options,
                                  const std::function<void()>& before) {
  // Tests run several at once, each from a process of its own.
  static int runs = 0;
  const std::string report_path =
      make_directory("report") + "/" + std::to_string(::getpid()) + "-" + std::to_string(++runs);
  int output[2];
  if (::pipe2(output, O_CLOEXEC) != 0) return {};
  // A pipe belongs to who made it, and is opened again by its owner only.
  if (by_ == StartedBy::user && ::geteuid() == 0 && ::fchown(output[1], kOrdinaryUser, kOrdinaryUser) != 0) return {};
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (by_ == StartedBy::user && ::geteuid() == 0) become_ordinary();
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(output[1], 1);
    ::dup2(output[1], 2);
    before();
    // A busy machine may take longer for a small workspace than a person waits for a large one.
    ForegroundOptions patient = options;
    patient.launch.machine.bounds.time = std::chrono::minutes(1);
    write_report(report_path, run_foreground(spec, patient));
    ::_exit(0);
  }
  ::close(output[1]);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t length = 0; (length = ::read(output[0], buffer, sizeof(buffer))) > 0;) {
    outcome.output.append(buffer, static_cast<std::size_t>(length));
  }
  ::close(output[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  std::ifstream report(report_path);
  for (std::string line; std::getline(report, line);) {
    if (line.starts_with("error ")) outcome.error = line.substr(6);
    if (line.starts_with("code ")) outcome.code = std::stoi(line.substr(5)), outcome.has_started = true;
    outcome.report.push_back(line);
  }
  return outcome;
}

}  // namespace sallyport::sandbox

// Attacks on the kernel, on other processes, on the network and on the machine's resources.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstring>

#include "fixture.h"

namespace sallyport::sandbox {
namespace {

class KernelAttack : public AttackTest {};
SALLYPORT_BOTH_WAYS(KernelAttack);

TEST_P(KernelAttack, MakesNamespaces) {
  for (const char* name : {"unshare-user", "unshare-mount", "clone-user", "clone3-user", "setns"}) {
    EXPECT_TRUE(is_refused(attack({name}))) << name;
  }
}

TEST_P(KernelAttack, ChangesMounts) {
  for (const char* name : {"mount", "open-tree", "open-tree-attr", "mount-setattr", "chroot", "pivot-root"}) {
    EXPECT_TRUE(is_refused(attack({name}))) << name;
  }
  EXPECT_TRUE(is_refused(attack({"remount", "/usr"})));
  EXPECT_TRUE(is_refused(attack({"umount", "/proc"})));
}

TEST_P(KernelAttack, UsesIoUringThroughEveryAbi) {
  for (const char* name : {"io-uring", "io-uring-i386", "io-uring-x32"})
    EXPECT_TRUE(is_refused(attack({name}))) << name;
}

TEST_P(KernelAttack, IsKilledForAnyCallThroughAForeignAbi) { EXPECT_EQ(attack({"getpid-i386"}).code, 128 + SIGSYS); }

TEST_P(KernelAttack, UsesRiskyInterfaces) {
  for (const char* name :
       {"bpf", "perf", "keyctl", "add-key", "userfaultfd", "dmesg", "kexec", "load-module", "set-clock"}) {
    EXPECT_TRUE(is_refused(attack({name}))) << name;
  }
}

TEST_P(KernelAttack, UsesACallThatIsNewerThanTheFilter) { EXPECT_TRUE(is_refused(attack({"unknown-call"}))); }

TEST_P(KernelAttack, InjectsTerminalInput) {
  for (const char* name : {"tiocsti", "tiocsti-disguised", "tioclinux"})
    EXPECT_TRUE(is_refused(attack({name}))) << name;
}

TEST_P(KernelAttack, SnapshotsASubvolume) {
  const Outcome outcome = shell(
      "for n in 0x50009401 0x50009417 0x4020bc10; do python3 -c 'import fcntl, os, sys\ntry: "
      "fcntl.ioctl(os.open(\".\", 0), int(sys.argv[1], 16), bytearray(4096))\nexcept OSError as e: print(e.errno)' $n "
      ">> "
      "errors; done");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(read(workspace_ + "/errors"), "1\n1\n1\n") << "EPERM";
}

TEST_P(KernelAttack, UsesUpWhatTheHostCountsForItsUser) {
  const Outcome outcome = shell("ulimit -i > limits; ulimit -r >> limits; ulimit -e >> limits; ulimit -n >> limits");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(read(workspace_ + "/limits"), "4096\n0\n0\n1024\n");
}

TEST_P(KernelAttack, ExecutesFromMemory) {
  for (const char* name : {"memfd-exec", "memfd-exec-flag", "memfd-exec-sealed"}) {
    EXPECT_TRUE(is_refused(attack({name}))) << name;
  }
}

TEST_P(KernelAttack, KeepsAnyPrivilege) { EXPECT_TRUE(is_refused(attack({"privileges"}))); }

TEST_P(KernelAttack, ReachesHostProcesses) {
  const std::string host_process = std::to_string(::getpid());
  for (const char* name : {"ptrace", "kill", "process-vm-readv"}) {
    EXPECT_TRUE(is_refused(attack({name, host_process}))) << name;
  }
}

TEST_P(KernelAttack, SignalsItsProcessGroup) {
  for (const int abi : {5, 7}) {
    Spec attacked = spec();
    attacked.command = {probe_, "signal-group"};
    ForegroundOptions options;
    options.launch.machine.landlock_abi = std::min(abi, options.launch.machine.landlock_abi);
    // The process that runs the sandbox has the default action for this signal: it would be dead.
    EXPECT_EQ(run(attacked, options).code, 0) << "Landlock ABI " << abi;
  }
}

TEST_P(KernelAttack, ReachesPidOne) {
  for (const char* name : {"ptrace", "process-vm-readv"}) EXPECT_TRUE(is_refused(attack({name, "1"}))) << name;
  EXPECT_EQ(attack({"kill-init"}).code, 0);
}

TEST_P(KernelAttack, ReadsTheLaunchersSecretsThroughPidOne) {
  Spec attacked = spec();
  attacked.command = {probe_, "read-init", "sandbox_tests"};
  const Outcome outcome = run(attacked, [] { ::setenv("LAUNCHER_SECRET", "x", 1); });
  EXPECT_TRUE(is_refused(outcome));
}

TEST_P(KernelAttack, BlindsTheSupervisorWithALease) { EXPECT_TRUE(is_refused(attack({"lease"}))); }

TEST_P(KernelAttack, LowersTheLimitsOfPidOne) { EXPECT_TRUE(is_refused(attack({"limit-init"}))); }

TEST_P(KernelAttack, TakesTheProcessorFromPidOne) {
  EXPECT_TRUE(is_refused(attack({"slow-init"})));
  EXPECT_EQ(attack({"schedule-itself"}).code, kProbeSucceeded);
}

// Whoever answers refused calls has other things to do too.
TEST_P(KernelAttack, KeepsItsSupervisorBusyWithRefusedCalls) {
  Spec attacked = spec();
  attacked.command = {probe_, "flood", "100"};
  attacked.limits.duration = std::chrono::milliseconds(300);
  const Outcome outcome = run(attacked);
  EXPECT_TRUE(outcome.reports("over time")) << outcome.error;
}

TEST_P(KernelAttack, FillsMemoryWithEmptyFiles) {
  Spec attacked = spec();
  attacked.limits.scratch_bytes = 16 << 20;
  attacked.command = {"bash", "-c",
                      "cd /tmp; i=0; while [ $i -lt 5000 ] && : > $i; do i=$((i+1)); done; test $i -lt 5000"};
  EXPECT_EQ(run(attacked).code, 0);
}

TEST_P(KernelAttack, OpensWhatItWasGivenAsItsInputToEverybody) {
  const std::string given = write("given", "x");
  ASSERT_EQ(::chmod(given.c_str(), 0600), 0);
  Spec attacked = spec();
  attacked.command = {"chmod", "666", "/proc/self/fd/0"};
  const Outcome outcome = run(attacked, [&] { ::dup2(::open(given.c_str(), O_RDONLY), 0); });
  struct stat info{};
  ASSERT_EQ(::stat(given.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(outcome.code != 0, !outcome.reports("restored the mode of its standard input"));
}

using UserAttack = SandboxTest;

TEST_F(UserAttack, ChangesWhatTheCallerCannotPutBack) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs two users";
  start_as(StartedBy::user);
  const std::string given = write("given", "x");
  Spec attacked = spec();
  attacked.command = {"bash", "-c",
                      "chmod 666 /proc/self/fd/0 && touch changed; until [ -e enough ]; do sleep 0.01; done"};
  const pid_t other = ::fork();
  if (other == 0) {
    while (!exists(workspace_ + "/changed")) ::usleep(1000);
    const int result = ::chown(given.c_str(), 0, 0);
    write("workspace/enough", "");
    ::_exit(result);
  }
  const Outcome outcome = run(attacked, [&] { ::dup2(::open(given.c_str(), O_RDONLY), 0); });
  ::waitpid(other, nullptr, 0);
  EXPECT_TRUE(outcome.reports("unrestored the mode of its standard input")) << outcome.output;
}

TEST_P(KernelAttack, InheritsTheEnvironment) {
  Spec attacked = spec();
  attacked.command = {probe_, "has-variable", "LAUNCHER_SECRET"};
  EXPECT_TRUE(is_refused(run(attacked, [] { ::setenv("LAUNCHER_SECRET", "x", 1); })));
}

TEST_P(KernelAttack, InheritsDescriptors) {
  Spec attacked = spec();
  attacked.command = {probe_, "extra-descriptors"};
  const Outcome outcome = run(attacked, [] {
    ::open("/", O_RDONLY | O_DIRECTORY);  // without close-on-exec, as a careless caller would
    ::dup2(::open("/etc", O_RDONLY | O_DIRECTORY), 200);
  });
  EXPECT_TRUE(is_refused(outcome));
}

TEST_P(KernelAttack, SeesTheHostsSharedMemory) {
  const key_t key = 0x5a110000 + ::getpid();
  const int segment = ::shmget(key, 4096, IPC_CREAT | 0666);
  ASSERT_GE(segment, 0);
  EXPECT_TRUE(is_refused(attack({"sysv-shm", std::to_string(key)})));
  ::shmctl(segment, IPC_RMID, nullptr);
}

TEST_P(KernelAttack, OpensSocketsOfOtherFamilies) {
  // vsock, AF_ALG, packet, kernel events over netlink, raw.
  for (const std::vector<std::string>& words : {std::vector<std::string>{"socket", "40", "1", "0"},
                                                {"socket", "38", "5", "0"},
                                                {"socket", "17", "3", "768"},
                                                {"socket", "16", "3", "15"},
                                                {"socket", "2", "3", "1"},
                                                {"socket", "10", "3", "58"}}) {
    EXPECT_TRUE(is_refused(attack(words))) << words[1];
  }
}

TEST_P(KernelAttack, ConnectsToTheHostsLoopback) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int receiver = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(at);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length), 0);
  ASSERT_EQ(::bind(receiver, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  const std::string port = std::to_string(ntohs(at.sin_port));
  EXPECT_TRUE(is_refused(attack({"connect-tcp", "127.0.0.1", port})));
  EXPECT_TRUE(is_refused(attack({"connect-tcp", "169.254.169.254", "80"})));
  EXPECT_TRUE(is_refused(attack({"send-udp", "127.0.0.1", port})));
  ::close(listener);
  ::close(receiver);
}

int listen_at(const sockaddr_un& at, socklen_t length) {
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&at), length) != 0 || ::listen(listener, 4) != 0) return -1;
  return listener;
}

TEST_P(KernelAttack, ConnectsToAnAbstractSocketOfTheHost) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  const std::string name = "sallyport-test-" + std::to_string(::getpid()) + to_string(GetParam());
  std::memcpy(at.sun_path + 1, name.data(), name.size());
  const int listener = listen_at(at, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size()));
  ASSERT_GE(listener, 0);
  EXPECT_TRUE(is_refused(attack({"connect-abstract", name})));
  ::close(listener);
}

TEST_P(KernelAttack, ConnectsToSocketFilesOfTheHost) {
  make_directory("workspace/.git");
  make_directory("workspace/sub/.git");
  make_directory("workspace/node_modules/m");
  for (const std::string& path : {home_ + "/agent.sock", workspace_ + "/docker.sock", workspace_ + "/.git/daemon.ipc",
                                  workspace_ + "/sub/.git/daemon.ipc", workspace_ + "/node_modules/m/s"}) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    ASSERT_LT(path.size(), sizeof(at.sun_path));
    std::memcpy(at.sun_path, path.data(), path.size());
    const int listener = listen_at(at, sizeof(at));
    ASSERT_GE(listener, 0);
    ::chmod(path.c_str(), 0777);
    Spec attacked = spec();
    // What is skipped is searched only where something is denied by its name.
    if (path.find("node_modules") != std::string::npos) attacked.deny_patterns = {"**/denied"};
    attacked.command = {probe_, "connect-unix", path};
    EXPECT_TRUE(is_refused(run(attacked))) << path;
    attacked.is_workspace_writable = false;
    EXPECT_TRUE(is_refused(run(attacked))) << path;
    ::close(listener);
  }
}

TEST_P(KernelAttack, TakesTheMachinesPlacesForAsynchronousRequests) { EXPECT_TRUE(is_refused(attack({"aio"}))); }

TEST_P(KernelAttack, TakesAllThatItsUserMayWatchAndAllTerminals) {
  const Outcome outcome = shell(
      "for what in instances watches; do "
      "echo $(($(cat /proc/sys/fs/inotify/max_user_$what) / 2 - $(cat /proc/sys/user/max_inotify_$what))); done; "
      "grep -o max=1024 /proc/mounts");
  EXPECT_EQ(outcome.output, "0\n0\nmax=1024\n");
}

TEST_P(KernelAttack, ForksWithoutEnd) { EXPECT_TRUE(is_refused(attack({"fork-bomb", "3000"}))); }

TEST_P(KernelAttack, TakesMoreMemoryThanItsLimit) {
  EXPECT_TRUE(is_refused(attack({"memory", std::to_string(6ULL << 30)})));
}

TEST_P(KernelAttack, TakesMoreSharedMemoryThanItsLimit) {
  Spec attacked = spec();
  attacked.limits.memory_bytes = 96 << 20;
  attacked.command = {probe_, "shared-memory", std::to_string(256 << 20)};
  const Outcome outcome = run(attacked);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.output;
  EXPECT_TRUE(outcome.reports("over memory"));
}

TEST_P(KernelAttack, LeavesADaemonBehind) {
  const std::string lock = workspace_ + "/lock";
  ASSERT_EQ(attack({"daemon", lock}).code, 0);
  const int file = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_EQ(::flock(file, LOCK_EX | LOCK_NB), 0) << "somebody still holds it";
  ::close(file);
}

TEST_P(KernelAttack, IsNamedInTheReport) {
  const Outcome outcome = attack({"mount"});
  EXPECT_TRUE(outcome.reports("violation mount"));
}

}  // namespace
}  // namespace sallyport::sandbox

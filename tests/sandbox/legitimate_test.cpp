// What people do all day must go on inside the walls.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "fixture.h"

namespace sallyport::sandbox {
namespace {

class LegitimateWork : public AttackTest {
 protected:
  // Runs the script with `set -e`, expecting success.
  void works(const std::string& script) {
    const Outcome outcome = shell("set -e\n" + script);
    EXPECT_TRUE(outcome.has_started) << outcome.error;
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }
  void needs(const char* program) {
    if (::access(program, X_OK) != 0) GTEST_SKIP() << program << " is not installed";
  }
};
SALLYPORT_BOTH_WAYS(LegitimateWork);

TEST_P(LegitimateWork, GitInitCommitStatusBranchAndClone) {
  works(
      "git init -q repo && cd repo && echo a > a && git add a && git commit -q -m a && git status --porcelain\n"
      "git checkout -q -b side && echo b > b && git add b && git commit -q -m b && git log --oneline | wc -l\n"
      "cd .. && git clone -q repo copy && test -e copy/b");
}

TEST_P(LegitimateWork, GitCommitInThePinnedRepository) {
  host("git init -q . && echo x > x && git add x && git -c user.name=a -c user.email=a@b commit -q -m x");
  works(
      "echo y > y && git add y && git commit -q -m y && test $(git log --oneline | wc -l) = 2 && git status "
      "--porcelain");
  host("test $(git log --oneline | wc -l) = 2 && git fsck --no-progress");
}

TEST_P(LegitimateWork, GitWorktree) {
  host("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x");
  works("git worktree add -q side && cd side && git commit -q --allow-empty -m y && git status --porcelain");
}

TEST_P(LegitimateWork, GitRebaseWithCommands) {
  host("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x");
  const Outcome outcome = shell(
      "set -e; for i in 1 2 3; do echo $i > f$i; git add f$i; git commit -q -m $i; done\n"
      "git rebase -q -x 'test -e f1' HEAD~2 > log 2>&1 || { cat log; exit 1; }; test $(git log --oneline | wc -l) = 4");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const std::string& line : outcome.report) EXPECT_FALSE(line.starts_with("suspicious")) << line;
}

TEST_P(LegitimateWork, CmakeAndMake) {
  needs("/usr/bin/cmake");
  write("workspace/CMakeLists.txt", "cmake_minimum_required(VERSION 3.5)\nproject(p C)\nadd_executable(p p.c)\n");
  write("workspace/p.c", "int main(void) { return 0; }\n");
  works(
      "cmake -S . -B build -G 'Unix Makefiles' > log 2>&1 || { cat log; exit 1; }\nmake -C build > log 2>&1 && "
      "build/p");
}

TEST_P(LegitimateWork, WritesAndRunsAProgram) {
  works("printf '#!/bin/sh\\necho hello\\n' > tool && chmod +x tool && test \"$(./tool)\" = hello");
}

TEST_P(LegitimateWork, PythonWithAVirtualEnvironment) {
  needs("/usr/bin/python3");
  works("python3 -m venv --without-pip venv && venv/bin/python -c 'import sys; assert sys.prefix.endswith(\"venv\")'");
}

TEST_P(LegitimateWork, PythonProcessesAndSockets) {
  needs("/usr/bin/python3");
  works(
      "python3 -c '\n"
      "import multiprocessing, socket, threading\n"
      "with multiprocessing.get_context(\"fork\").Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]\n"
      "server = socket.create_server((\"127.0.0.1\", 0))\n"
      "socket.create_connection(server.getsockname())\n"
      "'");
}

TEST_P(LegitimateWork, Pytest) {
  needs("/usr/bin/pytest-3");
  write("workspace/test_sum.py",
        "def test_sum():\n    assert 1 + 1 == 2\n\ndef test_text(tmp_path):\n    (tmp_path / 'a').write_text('a')\n");
  works("pytest-3 -q > log 2>&1 || { cat log; exit 1; }\ngrep -q '2 passed' log");
}

#ifdef SALLYPORT_HAS_NPM
// A package that is in npm's cache is installed without a network.
TEST_P(LegitimateWork, NpmInstallFromACache) {
  write("workspace/library/package.json", R"({"name":"library","version":"1.0.0"})");
  write("workspace/library/index.js", "module.exports = 42\n");
  write("workspace/package.json", R"({"name":"user","version":"1.0.0"})");
  works(
      "(cd library && npm pack --offline > ../log 2>&1) || { cat log; exit 1; }\n"
      "npm cache add ./library/library-1.0.0.tgz >> log 2>&1 || { cat log; exit 1; }\n"
      "npm install --offline ./library/library-1.0.0.tgz >> log 2>&1 || { cat log; exit 1; }\n"
      "test \"$(node -p 'require(\"library\")')\" = 42");
}
#endif

TEST_P(LegitimateWork, DebuggerOnAChild) { EXPECT_EQ(attack({"debug-child"}).code, 0); }

TEST_P(LegitimateWork, GdbOnAProgram) {
  needs("/usr/bin/gdb");
  const Outcome outcome = shell("gdb -q -nx -batch -ex 'break main' -ex run -ex continue ./sp_probe 2>&1");
  EXPECT_NE(outcome.output.find("exited with code"), std::string::npos) << outcome.output;
}

TEST_P(LegitimateWork, RenamesBetweenDirectories) {
  works("mkdir a b && echo x > a/x && mv a/x b/x && mv b c && test -e c/x");
}

TEST_P(LegitimateWork, UsesPrivateDirectories) {
  works("echo x > /tmp/x && echo x > /dev/shm/x && echo x > ~/x && mkdir -p ~/.cache/tool && test $(cat ~/x) = x");
}

TEST_P(LegitimateWork, UsesPipesTerminalsAndDevices) {
  works(
      "head -c 10 /dev/urandom | wc -c | grep -q 10; echo x > /dev/null; test -c /dev/ptmx -o -L /dev/ptmx; "
      "script -qec 'echo hello' /dev/null | grep -q hello");
}

TEST_P(LegitimateWork, WritesToItsOwnOutputByName) {
  const Outcome outcome = shell("echo one > /dev/stdout; echo two > /dev/stderr; echo three > /proc/self/fd/1");
  EXPECT_EQ(outcome.output, "one\ntwo\nthree\n");
}

TEST_P(LegitimateWork, WritesToAFileOfTheHostThatIsItsOutput) {
  const std::string output = write("report/output", "");
  Spec redirected = spec();
  redirected.command = {"bash", "-c", "echo one; echo two >> /dev/stdout"};
  run(redirected, [&] { ::dup2(::open(output.c_str(), O_WRONLY | O_APPEND), 1); });
  EXPECT_EQ(read(output), "one\ntwo\n");
}

TEST_P(LegitimateWork, IsShownWhatIsBehindALinkOfTheSystem) {
  if (!std::filesystem::is_symlink("/var/run") || !std::filesystem::is_directory("/run/lock")) {
    GTEST_SKIP() << "needs /var/run as a link";
  }
  Spec shown = spec();
  shown.read.emplace_back("/var/run/lock");
  shown.command = {"test", "-d", "/var/run/lock"};
  EXPECT_EQ(run(shown).code, 0);
}

TEST_P(LegitimateWork, ReadsTheMachinesFacts) {
  works("test $(nproc) -ge 1; grep -q MemTotal /proc/meminfo; hostname | grep -q sallyport; id -u");
}

}  // namespace
}  // namespace sallyport::sandbox

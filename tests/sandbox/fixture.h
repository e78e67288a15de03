// Runs a Spec as `sallyport run` would, in a process of its own, as root or as an ordinary user.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "sandbox/sandbox.h"

namespace sallyport::sandbox {

constexpr unsigned kOrdinaryUser = 61234;  // nobody's on any machine we know

enum class StartedBy { root, user };
std::string to_string(StartedBy by);

struct Outcome {
  bool has_started = false;
  std::string error;                // if it has not
  int code = -1;                    // exit_code() of the command
  std::string output;               // stdout and stderr together
  std::vector<std::string> report;  // "violation mount", "quarantined /...", "lost /...", ...
  bool reports(const std::string& line) const;
};

// A temporary directory with a workspace, a fake home with secrets, and the probe, all owned by the
// user that starts the sandbox.
class SandboxTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  void start_as(StartedBy by);  // to be called first; skips where the machine cannot do it
  Spec spec() const;            // the default profile's shape, around the workspace
  Outcome run(const Spec& spec, const ForegroundOptions& options = {});
  Outcome run(const Spec& spec, const std::function<void()>& in_the_launching_process);
  Outcome attack(const std::vector<std::string>& words);  // sp_probe WORDS in spec()
  Outcome shell(const std::string& script);               // bash -c in spec()

  std::string write(const std::string& path, const std::string& text);  // below base_, owned as all
  std::string make_directory(const std::string& path);
  std::string read(const std::string& path) const;
  bool exists(const std::string& path) const;
  // Outside the sandbox, as the starting user. What it made is older than whatever comes next: files are dated by a
  // clock that ticks, and what is as old as a run counts as made by it.
  void host(const std::string& script) const;

  std::string base_, workspace_, home_, probe_;
  StartedBy by_ = StartedBy::root;

 private:
  Outcome run_in_child(const Spec& spec, const ForegroundOptions& options, const std::function<void()>& before);
  void own(const std::string& path) const;
};

// Each test runs twice.
class AttackTest : public SandboxTest, public testing::WithParamInterface<StartedBy> {
 protected:
  void SetUp() override {
    SandboxTest::SetUp();
    start_as(GetParam());
  }
};

constexpr int kProbeRefused = 7;
constexpr int kProbeSucceeded = 42;

testing::AssertionResult is_refused(const Outcome& outcome);

#define SALLYPORT_BOTH_WAYS(Suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(StartedBy, Suite, testing::Values(StartedBy::root, StartedBy::user), \
                           [](const testing::TestParamInfo<StartedBy>& started) { return to_string(started.param); })

}  // namespace sallyport::sandbox

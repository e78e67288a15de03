// Programs that are installed in a home, as coding agents are: found by their names, and only where they may run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/daemon.h"
#include "support/shell.h"

namespace sallyport::testing {
namespace {

namespace fs = std::filesystem;

class InstalledTools : public ::testing::Test {
 protected:
  InstalledTools() {
    for (const char* below : {"/house/.local/bin", "/house/.local/share/claude/versions", "/house/tools", "/desk"}) {
      fs::create_directories(root() + below);
    }
    write("house/.local/share/claude/versions/9", "#!/bin/sh\necho this is claude; command -v helper\n");
    fs::create_symlink(root() + "/house/.local/share/claude/versions/9", root() + "/house/.local/bin/claude");
    write("house/.local/bin/helper", "#!/bin/sh\n");
    write("house/tools/elsewhere", "#!/bin/sh\necho this is elsewhere\n");
    write("desk/ours", "#!/bin/sh\necho this is ours\n");
    write("desk/lost", "#!/nowhere/interpreter\n");
  }

  // As a user would whose shell finds what is in these places.
  Ran sallyport(const std::string& words) const {
    const std::string home = root() + "/house";
    return run_shell("cd '" + root() + "/desk' && env HOME='" + home + "' " + places_in(root()) +
                     "WORD=passed PATH='/usr/bin:/bin:" + home + "/.local/bin:" + home + "/tools:" + root() +
                     "/desk' " SALLYPORT_CLI " " + words + " 2>&1");
  }
  Ran run(const std::string& words) const { return sallyport("run --no-warden " + words); }
  const std::string& root() const { return directory_.path(); }

 private:
  void write(const std::string& name, const std::string& text) const {
    const std::string path = root() + "/" + name;
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms::owner_all);
  }

  TemporaryDirectory directory_;
};

TEST_F(InstalledTools, AnAgentIsFoundByItsNameAndFindsItsOwnHelpers) {
  const Ran ran = run("--profile agent -- claude");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_EQ(ran.output, "this is claude\n" + root() + "/house/.local/bin/helper\n");
}

TEST_F(InstalledTools, AnAgentInAPodIsFoundTheSameWay) {
  const Ran made = sallyport("pod new --name agent --profile agent -- claude");
  EXPECT_EQ(made.status, 0) << made.output;
  EXPECT_EQ(sallyport("pod log --follow agent").output, "this is claude\r\n" + root() + "/house/.local/bin/helper\r\n");
  EXPECT_EQ(sallyport("pod wait agent").status, 0);
  EXPECT_EQ(sallyport("down").status, 0);
}

TEST_F(InstalledTools, WhatTheSandboxDoesNotShowIsNamedWithTheOptionThatRunsIt) {
  const Ran refused = run("-- claude");
  EXPECT_EQ(refused.status, 1) << refused.output;
  const std::string remedy =
      "--exec " + root() + "/house/.local/bin --exec " + root() + "/house/.local/share/claude/versions";
  EXPECT_NE(refused.output.find("command not found: claude; the host has it as " + root() + "/house/.local/bin/claude"),
            std::string::npos)
      << refused.output;
  EXPECT_NE(refused.output.find(remedy), std::string::npos) << refused.output;
  const Ran allowed = run(remedy + " -- claude");
  EXPECT_EQ(allowed.status, 0) << allowed.output;
  EXPECT_NE(allowed.output.find("this is claude"), std::string::npos) << allowed.output;
}

TEST_F(InstalledTools, ReadingIsNotExecuting) {
  const Ran refused = run("--read '" + root() + "/house/tools' -- '" + root() + "/house/tools/elsewhere'");
  EXPECT_EQ(refused.status, 3) << refused.output;
  EXPECT_NE(refused.output.find("may not be executed"), std::string::npos) << refused.output;
  EXPECT_NE(refused.output.find("--exec " + root() + "/house/tools"), std::string::npos) << refused.output;
  const Ran allowed = run("--exec '" + root() + "/house/tools' -- elsewhere");
  EXPECT_EQ(allowed.output, "this is elsewhere\n");
}

TEST_F(InstalledTools, WhereTheCommandMayWriteNothingIsFoundByABareName) {
  const Ran refused = run("-- ours");
  EXPECT_EQ(refused.status, 1) << refused.output;
  EXPECT_EQ(run("-- ./ours").output, "this is ours\n");
}

TEST_F(InstalledTools, AMissingInterpreterIsNotTakenForAMissingCommand) {
  const Ran ran = run("-- ./lost");
  EXPECT_EQ(ran.status, 1) << ran.output;
  EXPECT_NE(ran.output.find("/desk/lost is there, but the interpreter that it names is not"), std::string::npos)
      << ran.output;
}

TEST_F(InstalledTools, AVariableThatIsPassedOnTakesThePlaceOfTheProfiles) {
  EXPECT_EQ(run("--env LANG -- sh -c 'echo $LANG'").output, "C.UTF-8\n");
  EXPECT_EQ(run("--env LANG=de -- sh -c 'echo $LANG'").output, "de\n");
  const std::string profiles = root() + "/profiles";
  fs::create_directories(profiles);
  std::ofstream(profiles + "/p.toml") << "[profile.p]\nfs.read = [\"/usr\"]\nfs.write = [\"${workspace}\"]\nexec = "
                                         "[\"/usr/**\"]\nenv = { PATH = \"/usr/bin\", WORD = \"fixed\" }\n";
  EXPECT_EQ(run("--profile p -- sh -c 'echo $WORD $PATH'").output, "fixed /usr/bin\n");
  EXPECT_EQ(run("--profile p --env WORD -- sh -c 'echo $WORD'").output, "passed\n");
}

}  // namespace
}  // namespace sallyport::testing

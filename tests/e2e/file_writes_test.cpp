// Writes and moves by the container's worker, where the walls are in their way.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "e2e/containers.h"

namespace sallyport::testing {
namespace {

class ContainerWrites : public Containers {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(workspace() + "/" + name) << text; }
  std::string read(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream(workspace() + "/" + name).rdbuf();
    return text.str();
  }
  std::string outcome(const std::string& method, const std::string& params, const std::string& profile = "default") {
    Client client = connect();
    return client.outcome(method,
                          R"({"workspace":")" + workspace() + R"(","profile":")" + profile + "\"," + params + "}");
  }
};

TEST_F(ContainerWrites, AMoveThatIsRefusedLeavesItsTargetAsItWas) {
  write("important", "mine");
  EXPECT_NE(outcome("fs.move", R"("from":"/etc/passwd","to":"important","overwrite":true)"), "OK");
  EXPECT_EQ(read("important"), "mine");
  EXPECT_NE(outcome("fs.move", R"("from":"/etc/ssl","to":"ssl")"), "OK");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(workspace()), {}), 1);
}

TEST_F(ContainerWrites, AMoveToTheContainersOwnDirectoryAndBackKeepsTheFile) {
  write("f", "kept");
  EXPECT_EQ(outcome("fs.move", R"("from":"f","to":"/tmp/f")"), "OK");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(workspace()), {}), 0);
  write("f", "old");
  EXPECT_EQ(outcome("fs.move", R"("from":"/tmp/f","to":"f","overwrite":true)"), "OK");
  EXPECT_EQ(read("f"), "kept");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(workspace()), {}), 1);
}

TEST_F(ContainerWrites, ASingleFileThatTheProfileNamesIsWritten) {
  write("notes.txt", "one\n");
  write("other.txt", "kept");
  std::filesystem::create_directory(daemon().root() + "/profiles");
  std::ofstream(daemon().root() + "/profiles/notes.toml")
      << "[profile.notes]\nfs.read = [\"${workspace}\"]\nfs.write = [\"${workspace}/notes.txt\"]\n";
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  EXPECT_EQ(outcome("fs.edit", R"("path":"notes.txt","old_string":"one","new_string":"two and more")", "notes"), "OK");
  EXPECT_EQ(read("notes.txt"), "two and more\n");
  EXPECT_EQ(outcome("fs.write", R"("path":"notes.txt","content":"3")", "notes"), "OK");
  EXPECT_EQ(read("notes.txt"), "3");
  EXPECT_NE(outcome("fs.write", R"("path":"other.txt","content":"4")", "notes"), "OK");
  EXPECT_EQ(read("other.txt"), "kept");
}

}  // namespace
}  // namespace sallyport::testing

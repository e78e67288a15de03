// Requests of a container that need review: its profile, the container, and whoever answers.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "e2e/door.h"

namespace sallyport::testing {

inline std::string quoted(const std::string& text) {
  return wire::to_json([&](wire::JsonWriter& json) { json.value(text); });
}

class Approvals : public Door {
 protected:
  std::string workspace() {
    const std::string path = daemon().root() + "/workspace";
    std::filesystem::create_directories(path);
    return path;
  }
  bool made(const std::string& name) { return std::filesystem::exists(workspace() + "/" + name); }

  // A profile "reviewed" with these lines, in force.
  void use_profile(const std::string& lines) {
    std::filesystem::create_directories(daemon().root() + "/profiles");
    std::ofstream(daemon().root() + "/profiles/reviewed.toml")
        << "[profile.reviewed]\nfs.read = [\"/usr\", \"/etc\"]\nfs.write = [\"${workspace}\"]\nexec = [\"/usr/**\"]\n"
           "methods = [\"test.*\", \"fs.*\", \"approval.*\", \"policy.explain\"]\n"
        << lines;
    Client client = connect();
    const auto answer = client.call("warden.reload");
    ASSERT_EQ(code_of(answer), "OK") << (answer && answer->error ? answer->error->message : "");
  }
  void use_deputy(const std::string& mode, const std::string& more = {}) {
    use_profile("review = { \"fs.mkdir\" = \"deputy\" }\ndeputy = [\"/usr/bin/python3\", \"" TEST_HELPERS
                "/rogue_deputy.py\", \"" +
                mode + "\"" + more + "]\ndeputy_limits = { timeout = \"" +
                (mode == "hang" || mode == "late" || mode == "flood" ? "2s" : "30s") + "\" }\n");
  }

  std::string container() {
    if (!container_.empty()) return container_;
    Client client = connect();
    const auto answer = client.call("container.create",
                                    R"({"template":"reviewed","config":{"workspace":)" + quoted(workspace()) + "}}");
    EXPECT_EQ(code_of(answer), "OK") << (answer && answer->error ? answer->error->message : "");
    if (answer && !answer->error) container_ = answer->result.get("container").as_string().value_or("");
    return container_;
  }
  // A session that speaks for the container.
  Client inside() {
    Client client = connect();
    EXPECT_EQ(client.outcome("session.narrow", R"({"container":)" + quoted(container()) + "}"), "OK");
    return client;
  }
  static std::string mkdir_params(const std::string& name) { return R"({"path":)" + quoted(name) + "}"; }

  // The id of the only open question, once there is one.
  std::string question(Client& human) {
    std::string id;
    EXPECT_TRUE(eventually([&] {
      const auto answer = human.call("approval.list");
      if (!answer || answer->error || answer->result.get("approvals").size() != 1) return false;
      for (const wire::Value one : answer->result.get("approvals").items()) id = one.get("id").as_string().value_or("");
      return true;
    }));
    return id;
  }
  static std::string named(const std::string& id) { return R"({"id":)" + quoted(id) + "}"; }
  std::string why(const std::optional<wire::Message>& answer) {
    return answer && answer->error ? answer->error->message : "no error";
  }

  std::string container_;
};

}  // namespace sallyport::testing

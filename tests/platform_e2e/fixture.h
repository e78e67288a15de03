// A daemon with a platform, a profile that may use it, and sessions that speak as a container of that profile.
#pragma once

#include <filesystem>
#include <fstream>

#include "e2e/door.h"
#include "platform/platform.h"
#include "platform_e2e/backends.h"
#include "support/shell.h"

namespace sallyport::testing {

inline constexpr const char* kPluginProfile = R"(
fs.read  = ["/usr", "/etc", "${workspace}"]
fs.write = ["${workspace}"]
exec     = ["/usr/**", "${workspace}/**"]
env      = { PATH = "/usr/bin:/bin" }
methods  = ["test.*", "platform.*", "storage.*", "cache.*", "vector.*", "llm.*", "embeddings.*", "events.*", "log.write"]
)";
inline constexpr const char* kAllGrants = R"(
[profile.plugin.permissions.adapters]
storage    = { buckets = ["*"] }
cache      = { namespaces = ["*"] }
vector     = { namespaces = ["*"] }
llm        = { models = ["*"] }
embeddings = { models = ["*"] }
events     = { namespaces = ["*"] }
log        = {}
)";

class PlatformDoor : public Door {
 protected:
  // `platform`: the text behind [platform]; `profile`: what the profile says beside kPluginProfile.
  void start_platform(const std::string& platform, const std::string& profile = kAllGrants,
                      std::function<void()> before_exec = {}) {
    daemon_ = std::make_unique<Daemon>(DaemonOptions{.config = "[warden]\ndrain_timeout_ms = 2000\n" + platform,
                                                     .before_exec = std::move(before_exec)});
    write_profile("plugin", profile);
    ASSERT_TRUE(daemon_->start()) << daemon_->log();
  }
  void write_profile(const std::string& name, const std::string& rest) {
    std::filesystem::create_directories(daemon_->root() + "/profiles");
    std::ofstream(daemon_->root() + "/profiles/" + name + ".toml")
        << "[profile." << name << "]" << kPluginProfile << rest;
  }

  // A model behind HTTP.
  static std::string openai(const WebServer& web, const std::string& more = "") {
    return "[platform.adapters]\nllm = \"openai\"\nembeddings = \"openai\"\n[platform.adapter_options.openai]\nurl = "
           "\"" +
           web.url() + "\"\nmodels = { small = \"model-1\" }\nembedding_models = { tiny = \"embed-1\" }\n" + more;
  }
  static constexpr const char* kAsk = R"({"messages":[{"role":"user","content":"hi"}]})";

  std::string make_container(const std::string& profile = "plugin", const std::string& config = "{}") {
    Client client = connect();
    const auto answer = client.call("container.create", R"({"template":")" + profile + R"(","config":)" + config + "}");
    if (!answer || answer->error) {
      ADD_FAILURE() << (answer ? answer->error->message : "no answer");
      return "";
    }
    return std::string(answer->result.get("container").as_string().value_or(""));
  }
  // A session that is that container, irrevocably.
  Client as_container(const std::string& id) {
    Client client = connect();
    EXPECT_EQ(client.outcome("session.narrow", R"({"container":")" + id + "\"}"), "OK");
    return client;
  }
  // The typed client, as a container or as the host.
  std::unique_ptr<platform::Platform> platform_of(const std::string& container = {}) {
    auto client = sallyport::Client::connect_unix(daemon().socket_path());
    if (!client) std::abort();
    if (!container.empty()) {
      const auto narrowed = (*client)->call("session.narrow", R"({"container":")" + container + "\"}");
      EXPECT_TRUE(narrowed) << (narrowed ? "" : narrowed.error().message);
    }
    auto platform = platform::init_platform(std::move(*client));
    if (!platform) {
      std::fprintf(stderr, "no platform: %s\n%s", platform.error().message.c_str(), daemon().log().c_str());
      std::abort();
    }
    return std::move(*platform);
  }
  // A member of the answer's result, as JSON.
  static std::string member(Client& client, const char* method, const std::string& params, const char* name) {
    const auto answer = client.call(method, params);
    if (!answer) return "CLOSED";
    if (answer->error) return std::string(to_string(answer->error->code));
    return answer->result.get(name).to_json();
  }
  static bool send_with_deadline(Client& client, std::string_view id, std::string_view method,
                                 std::uint32_t deadline_ms, const std::string& params) {
    Bytes frame;
    return wire::append_request(frame, {.id = id, .method = method, .deadline_ms = deadline_ms, .token = {}}, params) &&
           client.send(text_of(frame));
  }
  // Of a tenant's quota: "used" or "reserved". -1 if it has none.
  std::int64_t quota(const char* name, const char* what = "used", std::string_view of = "profile.plugin") {
    Client client = connect();
    const auto answer = client.call("platform.status");
    if (!answer || answer->error) return -1;
    for (const wire::Value tenant : answer->result.get("quotas").items()) {
      if (tenant.get("tenant").as_string() == of) return tenant.get(name).get(what).as_int().value_or(-1);
    }
    return -1;
  }
  // What platform.status says of an adapter.
  std::string adapter_says(const char* role, const char* name) {
    Client client = connect();
    const auto answer = client.call("platform.status");
    if (!answer || answer->error) return code_of(answer);
    return std::string(answer->result.get("adapters").get(role).get(name).as_string().value_or(""));
  }
  // The command line, with both its outputs, and how it ended.
  std::string run_cli(const std::string& words) {
    const Ran ran = run_shell(places_in(daemon().root()) + SALLYPORT_CLI " " + words);
    return ran.output + "exit " + std::to_string(ran.status);
  }
  pid_t adapters_pid() {
    Client client = connect();
    const auto answer = client.call("platform.status");
    return answer && !answer->error ? static_cast<pid_t>(answer->result.get("pid").as_int().value_or(0)) : 0;
  }
};

}  // namespace sallyport::testing

// Containers of the real daemon, with a workspace of their own.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "e2e/door.h"

namespace sallyport::testing {

class Containers : public Door {
 protected:
  std::string workspace() {
    const std::string path = daemon().root() + "/workspace";
    std::filesystem::create_directories(path);
    return path;
  }

  // The daemon's only child.
  pid_t launcher() {
    const std::string pid = std::to_string(daemon().pid());
    std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
    pid_t child = 0;
    return children >> child ? child : 0;
  }

  // The id, or the error's code.
  std::string create(Client& client, const std::string& config) {
    const auto answer =
        client.call("container.create", R"({"config":{"workspace":")" + workspace() + "\"" + config + "}}");
    if (!answer) return "CLOSED";
    if (answer->error) return std::string(to_string(answer->error->code)) + ": " + answer->error->message;
    return std::string(answer->result.get("container").as_string().value_or(""));
  }

  struct Ran {
    std::string out, err;
    std::int64_t exit_code = -1;
    std::string error;
  };
  // Runs a shell command to its end, collecting what its streams bring.
  Ran exec(Client& client, const std::string& id, const std::string& script) {
    Ran ran;
    const std::string params = wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().member("container", id).key("command").begin_array();
      json.value("sh").value("-c").value(script).end_array().end_object();
    });
    EXPECT_TRUE(client.send_request("exec", "container.exec", params));
    std::int64_t out = 0;
    while (const auto body = client.next_body()) {
      if (const auto chunk = wire::parse_chunk(as_bytes(*body)); chunk) {
        (chunk->stream == out ? ran.out : ran.err) += as_text(chunk->data);
        continue;
      }
      auto message = decode(*body);
      if (!message) break;
      if (message->type == wire::MessageType::event) {
        out = message->params.get("stdout").get("$stream").as_int().value_or(0);
        continue;
      }
      if (message->error) ran.error = to_string(message->error->code);
      ran.exit_code = message->result.get("exit_code").as_int().value_or(-1);
      break;
    }
    return ran;
  }

  std::string state_of(Client& client, const std::string& id) {
    const auto answer = client.call("container.inspect", R"({"container":")" + id + "\"}");
    if (!answer || answer->error) return "unknown";
    return std::string(answer->result.get("state").as_string().value_or(""));
  }

  using Names = std::vector<std::string>;
  // Of all containers of this name.
  static Names states_of(const std::string& name, Client& client) {
    Names states;
    const auto answer = client.call("container.list");
    if (!answer) return states;
    for (const wire::Value container : answer->result.get("containers").items()) {
      if (container.get("name").as_string() == name) states.emplace_back(*container.get("state").as_string());
    }
    return states;
  }

  static std::string named(const std::string& id) { return R"({"container":")" + id + "\"}"; }
};

}  // namespace sallyport::testing

// The bridge: MCP on two descriptors, and a container in which every tool does its work.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "mcp/operation.h"
#include "mcp/place.h"
#include "mcp/server.h"

namespace sallyport::mcp {

struct BridgeOptions {
  PlaceOptions place;
  std::string version;
  bool with_exec = true;
  int in = 0, out = 1;  // not owned
};

class Bridge final : public Tools {
 public:
  Bridge(Place::Connect connect, const BridgeOptions& options);

  // Serves until the client ends its input and everything that it asked is answered, or until nobody is there to read
  // the answers. The error is why there is no container.
  Status run();
  // Of the container's end, once run() is over: what a person should look at.
  const std::vector<std::string>& findings() const { return findings_; }

  const std::vector<Tool>& list() const override { return tools_; }
  void call(std::shared_ptr<ToolCall> call) override;

 private:
  // Each does what can be done without waiting.
  void start_commands();
  void read_input();
  void write_output();
  SteadyTime turn_operations();
  bool expects_answer() const;
  void wait(SteadyTime until);
  bool is_behind() const { return server_.output().size() > kMaxUnsentBytes; }

  int in_, out_;
  Spinner spinner_{Spinner::Mode::eager};
  std::string workspace_;
  std::vector<Tool> tools_;
  Place place_;
  mutable Server server_;
  std::vector<std::shared_ptr<Operation>> operations_, commands_;  // the second are some of the first
  std::deque<std::shared_ptr<ToolCall>> waiting_commands_;
  std::vector<std::string> findings_;
  SteadyTime last_call_;
  bool has_input_ = false, has_input_ended_ = false, is_client_gone_ = false;
};

}  // namespace sallyport::mcp

// exec: a shell command in the container, its output streamed as progress, with limits on time and output.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "mcp/operation.h"

namespace sallyport::mcp {

Tool exec_tool(const PlaceOptions& place);

// What container.exec runs for this tool, given its parameters: the command that was asked for. Nothing if they are
// somebody else's.
std::optional<std::string> command_of(wire::Value params);

// Checks the arguments; the call is answered if they are wrong, and nothing is returned.
std::shared_ptr<Operation> start_exec(std::shared_ptr<ToolCall> call, Place& place, const std::string& workspace);

// The beginning and the end of a command's output, whatever its length.
class OutputKeeper {
 public:
  explicit OutputKeeper(std::size_t most) : half_(most / 2) {}
  void add(std::string_view bytes);
  std::string text() const;  // with a line where something was left out
  std::uint64_t left_out() const { return total_ - head_.size() - tail_.size(); }

 private:
  std::size_t half_;
  std::string head_, tail_;
  std::uint64_t total_ = 0;
};

}  // namespace sallyport::mcp

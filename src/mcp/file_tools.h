// The file tools: each is one method of the file worker.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mcp/arguments.h"
#include "mcp/operation.h"
#include "mcp/render.h"

namespace sallyport::mcp {

struct FileTool {
  std::string_view name, title, method;
  std::string_view description;
  Arguments arguments;
  Render render = nullptr;              // none: it is done by an operation of its own
  std::string_view output_schema = {};  // JSON text
  bool is_read_only = false, is_destructive = false, is_idempotent = false;
};

std::span<const FileTool> file_tools();

// The arguments were checked.
std::shared_ptr<Operation> start_file_tool(const FileTool& tool, std::shared_ptr<ToolCall> call, Place& place,
                                           const std::string& workspace);

}  // namespace sallyport::mcp

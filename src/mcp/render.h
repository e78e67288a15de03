// What a model reads of a file method's result.
#pragma once

#include "mcp/server.h"
#include "wire/json.h"

namespace sallyport::mcp {

using Render = void (*)(ToolCall& call, wire::Value result);

// Text alone. Clients that see structured content show the model nothing else, and these are for reading.
void render_read(ToolCall& call, wire::Value result);
void render_glob(ToolCall& call, wire::Value result);
void render_grep(ToolCall& call, wire::Value result);
// The result as structured content, and the same as text for clients that know no other.
void render_structured(ToolCall& call, wire::Value result);

}  // namespace sallyport::mcp

// What a model reads of a file method's result.
#pragma once

#include "mcp/server.h"
#include "wire/json.h"

namespace sallyport::mcp {

using Render = void (*)(ToolCall& call, wire::Value result);

// Text alone. Clients that see structured content show the model nothing else, and these are for reading.
void render_read(ToolCall& call, wire::Value result);
// Of bytes that nobody asked for; `why` is a sentence.
void finish_binary(ToolCall& call, std::string why);
void render_glob(ToolCall& call, wire::Value result);
void render_grep(ToolCall& call, wire::Value result);
// The result as structured content, and the same as text for clients that know no other.
void render_structured(ToolCall& call, wire::Value result);
void finish_structured(ToolCall& call, std::string_view json_text);

// Items of an answer's content; the second only if the call asked for it.
void write_text(wire::JsonWriter& json, std::string_view content);
void write_sha256(wire::JsonWriter& json, const ToolCall& call, const std::string& sha256);

}  // namespace sallyport::mcp

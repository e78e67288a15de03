// A tool's arguments as a table: the JSON Schema that a model sees, and the check of what it sends.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "mcp/server.h"
#include "wire/schema.h"

namespace sallyport::mcp {

struct Argument {
  wire::Field field;  // integers with both bounds; arrays hold `items`, or strings
  std::string_view description;
  std::string_view words = {};           // of a string: its possible values, as "a|b"
  std::span<const Argument> items = {};  // of an array of objects
};
using Arguments = std::span<const Argument>;

std::string input_schema(Arguments arguments);

// Checks what the call was given: INVALID_PARAMS with a sentence for the model. For JSON Schema 1.0 is an integer, too:
// such numbers become integers.
Status check_arguments(Arguments arguments, ToolCall& call);

}  // namespace sallyport::mcp

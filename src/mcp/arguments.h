// A tool's arguments as a table: the JSON Schema that a model sees, and the check of what it sends.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
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

// INVALID_PARAMS with a sentence for the model.
Status check_arguments(Arguments arguments, wire::Value given);

}  // namespace sallyport::mcp

#include "mcp/arguments.h"

#include <cmath>
#include <optional>
#include <vector>

namespace sallyport::mcp {
namespace {

using wire::JsonWriter;
using wire::Type;
using wire::Value;

std::vector<std::string_view> split(std::string_view words) {
  std::vector<std::string_view> all;
  while (!words.empty()) {
    const std::size_t bar = words.find('|');
    all.push_back(words.substr(0, bar));
    words.remove_prefix(bar == std::string_view::npos ? words.size() : bar + 1);
  }
  return all;
}

std::string_view type_name(Type type) {
  switch (type) {
    case Type::boolean:
      return "boolean";
    case Type::integer:
      return "integer";
    case Type::string:
      return "string";
    default:
      return "array";
  }
}

void write_object(JsonWriter& json, Arguments arguments);

void write_argument(JsonWriter& json, const Argument& argument) {
  const wire::Field& field = argument.field;
  json.key(field.name).begin_object().member("type", type_name(field.type));
  json.member("description", argument.description);
  if (field.type == Type::integer) json.member("minimum", field.least).member("maximum", field.most);
  if (!argument.words.empty()) {
    json.key("enum").begin_array();
    for (const std::string_view word : split(argument.words)) json.value(word);
    json.end_array();
  }
  if (field.type == Type::string_array) json.key("items").raw(R"({"type":"string"})");
  if (field.type == Type::array) {
    json.member("minItems", field.least).key("items");
    write_object(json, argument.items);
  }
  json.end_object();
}

void write_object(JsonWriter& json, Arguments arguments) {
  json.begin_object().member("type", "object").key("properties").begin_object();
  for (const Argument& argument : arguments) write_argument(json, argument);
  json.end_object();
  bool has_required = false;
  for (const Argument& argument : arguments) {
    if (!argument.field.required) continue;
    if (!has_required) json.key("required").begin_array();
    has_required = true;
    json.value(argument.field.name);
  }
  if (has_required) json.end_array();
  json.member("additionalProperties", false).end_object();
}

Status check_words(const Argument& argument, Value value) {
  if (argument.words.empty() || !value) return ok();
  for (const std::string_view word : split(argument.words)) {
    if (value.as_string() == word) return ok();
  }
  return Error::invalid_param(argument.field.name, "must be one of " + std::string(argument.words));
}

Status check(Arguments arguments, Value given) {
  std::vector<wire::Field> fields;
  for (const Argument& argument : arguments) fields.push_back(argument.field);
  if (Status checked = wire::check_params(fields, given); !checked) {
    Error error = std::move(checked).error();
    // For the caller of a tool there are no "params".
    if (error.message.starts_with("params.")) error.message.erase(0, 7);
    return error;
  }
  for (const Argument& argument : arguments) {
    const Value value = given.get(argument.field.name);
    TRY(check_words(argument, value));
    std::size_t index = 0;
    for (const Value item : argument.items.empty() ? Value().items() : value.items()) {
      Status checked =
          item.is_object() ? check(argument.items, item) : Error::make(Code::invalid_params, "must be an object");
      if (!checked) {
        Error error = std::move(checked).error();
        error.message.insert(0, std::string(argument.field.name) + "[" + std::to_string(index) + "]: ");
        return error;
      }
      ++index;
    }
  }
  return ok();
}

// The integer that a number with a fraction of zero is.
std::optional<std::int64_t> whole(Arguments arguments, std::string_view name, Value value) {
  const auto number = value.as_double();
  if (!number || value.as_int() || std::trunc(*number) != *number || std::abs(*number) > 0x1p53) return std::nullopt;
  for (const Argument& argument : arguments) {
    if (argument.field.name == name && argument.field.type == Type::integer) return static_cast<std::int64_t>(*number);
  }
  return std::nullopt;
}

}  // namespace

std::string input_schema(Arguments arguments) {
  return wire::to_json([&](JsonWriter& json) { write_object(json, arguments); });
}

Status check_arguments(Arguments arguments, ToolCall& call) {
  bool has_whole = false;
  for (const auto& [name, value] : call.arguments().members()) has_whole |= whole(arguments, name, value).has_value();
  if (has_whole) {
    TRY(wire::Document changed, wire::Decoder().parse(wire::to_json([&](JsonWriter& json) {
      json.begin_object();
      for (const auto& [name, value] : call.arguments().members()) {
        if (const auto number = whole(arguments, name, value)) {
          json.member(name, *number);
        } else {
          json.member(name, value);
        }
      }
      json.end_object();
    })));
    call.set_arguments(std::move(changed));
  }
  return check(arguments, call.arguments());
}

}  // namespace sallyport::mcp

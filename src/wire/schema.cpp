#include "wire/schema.h"

namespace sallyport::wire {
namespace {

// Never echoes what the caller wrote unless it is a plain identifier: it goes into error details.
std::string path_of(std::string_view parent, std::string_view name) {
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!is_plain || name.size() > 64) return std::string(parent) + ".?";
  }
  return std::string(parent) + "." + std::string(name);
}

// Where a value is: said only where something is wrong with it.
struct Place {
  std::string_view parent, name;
  std::string path() const { return path_of(parent, name); }
};

// `measure` is what the value is of: itself ("be", "") or something it has ("have", " bytes").
struct Measure {
  std::string_view verb, unit;
};
constexpr Measure kItself{"be", ""}, kBytes{"have", " bytes"}, kItems{"have", " items"};

Status check_range(const Field& field, const Place& place, std::int64_t value, const Measure& measure) {
  if (value >= field.least && value <= field.most) return ok();
  const bool has_least = field.least != std::numeric_limits<std::int64_t>::min();
  const bool has_most = field.most != std::numeric_limits<std::int64_t>::max();
  const std::string least = std::to_string(field.least), most = std::to_string(field.most);
  const std::string range = has_least && has_most ? "from " + least + " to " + most
                            : has_least           ? "at least " + least
                                                  : "at most " + most;
  return Error::invalid_param(place.path(),
                              "must " + std::string(measure.verb) + " " + range + std::string(measure.unit));
}

Status check_object(Schema schema, std::string_view path, Value object);

Status check_value(const Field& field, const Place& place, Value value) {
  switch (field.type) {
    case Type::boolean:
      if (!value.as_bool()) return Error::invalid_param(place.path(), "must be true or false");
      return ok();
    case Type::integer:
      if (const auto number = value.as_int()) return check_range(field, place, *number, kItself);
      return Error::invalid_param(place.path(), "must be an integer");
    case Type::number:
      if (!value.as_double()) return Error::invalid_param(place.path(), "must be a number");
      return ok();
    case Type::string:
      if (const auto text = value.as_string()) {
        return check_range(field, place, static_cast<std::int64_t>(text->size()), kBytes);
      }
      return Error::invalid_param(place.path(), "must be a string");
    case Type::object:
      if (!value.is_object()) return Error::invalid_param(place.path(), "must be an object");
      return field.fields.empty() ? ok() : check_object(field.fields, place.path(), value);
    case Type::array:
    case Type::string_array:
      if (!value.is_array()) return Error::invalid_param(place.path(), "must be an array");
      if (field.type == Type::string_array) {
        std::size_t i = 0;
        for (const Value item : value.items()) {
          if (!item.is_string()) {
            return Error::invalid_param(place.path() + '[' + std::to_string(i) + ']', "must be a string");
          }
          ++i;
        }
      }
      return check_range(field, place, static_cast<std::int64_t>(value.size()), kItems);
    case Type::any:
      return ok();
  }
  return ok();
}

Status check_object(Schema schema, std::string_view path, Value object) {
  for (const auto& [name, value] : object.members()) {
    const Field* known = nullptr;
    for (const Field& field : schema) {
      if (field.name == name) known = &field;
    }
    if (known == nullptr) return Error::invalid_param(path_of(path, name), "unknown parameter");
    TRY(check_value(*known, {path, name}, value));
  }
  for (const Field& field : schema) {
    if (field.required && !object.get(field.name)) return Error::invalid_param(path_of(path, field.name), "is missing");
  }
  return ok();
}

}  // namespace

Status check_params(Schema schema, Value params) {
  if (schema.empty() && !params) return ok();
  return check_object(schema, "params", params);
}

}  // namespace sallyport::wire

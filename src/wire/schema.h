// Parameter schemas as data: what a method takes, checked before its handler sees it.
//
//   constexpr Field kTokenCreate[] = {
//       {.name = "methods", .type = Type::string_array, .required = true},
//       {.name = "ttl_ms", .type = Type::integer, .least = 1, .most = 3'600'000},
//   };
//
// The set of fields is closed: an unknown one is refused. Errors name the path of the field.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "base/result.h"
#include "wire/json.h"

namespace sallyport::wire {

enum class Type : std::uint8_t { boolean, integer, number, string, object, array, string_array, any };

struct Field {
  std::string_view name;
  Type type = Type::any;
  bool required = false;
  // For integers their value; for strings their bytes; for arrays their items.
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::span<const Field> fields = {};  // of an object; empty: any content
};

using Schema = std::span<const Field>;

// An absent `params` counts as an empty object.
Status check_params(Schema schema, Value params);

}  // namespace sallyport::wire

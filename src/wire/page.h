// Lists that may be longer than a frame are told in pages.
#pragma once

#include <string>
#include <string_view>

#include "wire/json.h"
#include "wire/limits.h"
#include "wire/schema.h"

namespace sallyport::wire {

// What a method takes that answers with a page: the last name of the page before.
inline constexpr Field kPageFields[] = {{.name = "after", .type = Type::string, .most = 256}};

// The members `name`, the entries of an ordered map behind the key `after`, and `has_more`.
template <typename Map, typename Write>
void write_page(JsonWriter& json, std::string_view name, const Map& all, std::string_view after, Write write) {
  json.key(name).begin_array();
  auto next = all.upper_bound(std::string(after));
  for (; next != all.end() && json.out().size() <= kPageBytes; ++next) write(*next);
  json.end_array().member("has_more", next != all.end());
}

}  // namespace sallyport::wire

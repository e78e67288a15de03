// Lists that may be longer than a frame are told in pages.
#pragma once

#include <string>
#include <string_view>

#include "wire/json.h"
#include "wire/limits.h"
#include "wire/schema.h"

namespace sallyport::wire {

// What a method takes that answers with a page: the last name of the page before.
inline constexpr Field kAfter{.name = "after", .type = Type::string, .most = 256};
inline constexpr Field kPageFields[] = {kAfter};

// The members `name`, as many of these entries as a page takes, and `has_more`.
template <typename Iterator, typename Write>
void write_page(JsonWriter& json, std::string_view name, Iterator next, Iterator end, Write write) {
  json.key(name).begin_array();
  for (; next != end && json.out().size() <= kPageBytes; ++next) write(*next);
  json.end_array().member("has_more", next != end);
}

// The same for an ordered map, behind the key `after`.
template <typename Map, typename Write>
void write_page(JsonWriter& json, std::string_view name, const Map& all, std::string_view after, Write write) {
  write_page(json, name, all.upper_bound(std::string(after)), all.end(), std::move(write));
}

}  // namespace sallyport::wire

#include "permit/permit.h"

#include <algorithm>

namespace sallyport {

bool Principal::is_container_id(std::string_view id) {
  const auto is_letter_or_digit = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !id.empty() && id.size() <= 64 && is_letter_or_digit(id.front()) &&
         std::all_of(id.begin(), id.end(), [&](char c) { return is_letter_or_digit(c) || c == '-' || c == '_'; });
}

}  // namespace sallyport

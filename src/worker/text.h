// Bytes of files as text in JSON: escaped size, base64.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "worker/scan.h"

namespace sallyport::worker {

// A NUL among the first bytes: git's and grep's idea of binary.
bool looks_binary(std::string_view bytes);
// The longest prefix that does not end inside a UTF-8 sequence.
std::string_view whole_characters(std::string_view bytes);

// What one byte of text costs inside a JSON string; UTF-8 passes through.
constexpr std::size_t escaped_cost(char byte) {
  const auto c = static_cast<unsigned char>(byte);
  if (c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f') return 2;
  return c < 0x20 ? 6 : 1;
}
// How many bytes of text fit into `room` once escaped, never splitting a character.
std::size_t fitting_prefix(std::string_view text, std::size_t room);

std::string to_base64(std::string_view bytes);                  // RFC 4648, with padding
std::optional<std::string> from_base64(std::string_view text);  // strict: one spelling per value

std::size_t count_lines(std::string_view bytes);  // a last line without a newline counts

}  // namespace sallyport::worker

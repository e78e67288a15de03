// Bytes of files and their names as text in JSON: escaped size, cursors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "worker/scan.h"

namespace sallyport::worker {

// Appends a code point; U+FFFD for what is none.
void append_utf8(std::string& text, std::uint32_t point);
// Without its byte-order mark; U+FFFD for surrogates without their other half, and for half a character.
std::string utf16_to_utf8(std::string_view bytes, bool is_big_endian);

// A NUL among the first bytes: git's and grep's idea of binary.
bool looks_binary(std::string_view bytes);
// The longest prefix that does not end inside a UTF-8 sequence.
std::string_view whole_characters(std::string_view bytes);

// What one byte of text costs inside a JSON string; UTF-8 passes through.
inline constexpr std::size_t kMostEscaped = 6;
constexpr std::size_t escaped_cost(char byte) {
  const auto c = static_cast<unsigned char>(byte);
  if (c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f') return 2;
  return c < 0x20 ? kMostEscaped : 1;
}
// What bytes cost that may be no UTF-8: each that is none is shown as U+FFFD.
std::size_t shown_size(std::string_view bytes);
// How many bytes of text fit into `room` once escaped, never splitting a character.
std::size_t fitting_prefix(std::string_view text, std::size_t room);

// A file's name as a cursor carries it. Names are bytes, JSON is UTF-8: bytes that are none, and %, become %XX.
std::string spell_name(std::string_view name);
std::optional<std::string> read_name(std::string_view text);  // strict: one spelling per name, and no NUL

}  // namespace sallyport::worker

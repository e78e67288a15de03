#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/utf8.h"
#include "wire/json.h"
#include "wire/plain.h"

namespace sallyport::wire {
namespace {

constexpr char kUnicodeEscape = 'u';
// For each byte that needs an escape the letter behind the backslash, or 'u' for \u00xx.
constexpr std::array<char, 128> kEscapes = [] {
  std::array<char, 128> table{};
  for (std::size_t i = 0; i < 0x20; ++i) table.at(i) = kUnicodeEscape;
  table['"'] = '"';
  table['\\'] = '\\';
  table['\b'] = 'b';
  table['\f'] = 'f';
  table['\n'] = 'n';
  table['\r'] = 'r';
  table['\t'] = 't';
  return table;
}();

// Room for an escape, or a character, and the slack of copy_plain.
constexpr std::size_t kSpare = 8 + kPlainSlack;

// Writes one byte with its escape, or characters beyond ASCII; where the next text begins.
inline const char* write_special(char*& to, const char* from, const char* end) {
  const auto byte = static_cast<unsigned char>(*from);
  if (byte < 0x80) {
    const char escape = kEscapes[byte];
    *to++ = '\\';
    *to++ = escape;
    if (escape == kUnicodeEscape) {
      constexpr std::string_view kHex = "0123456789abcdef";
      for (const char digit : {'0', '0', kHex[byte >> 4], kHex[byte & 15]}) *to++ = digit;
    }
    return from + 1;
  }
  while (from != end && static_cast<unsigned char>(*from) >= 0x80) {
    const std::size_t length = utf8_sequence({from, end});
    if (length == 0) {
      to = std::copy_n(kUtf8Replacement.data(), kUtf8Replacement.size(), to);
      return from + 1;
    }
    to = std::copy_n(from, length, to);
    from += length;
  }
  return from;
}

}  // namespace

void JsonWriter::separate() {
  if (needs_comma_) out_.push_back(',');
  needs_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_.push_back(bracket);
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_.push_back(bracket);
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  out_.push_back(':');
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  const char* const end = text.data() + text.size();
  out_.reserve(out_.size() + text.size() + text.size() / 8 + kSpare);
  const auto begin = [&] { return reinterpret_cast<char*>(out_.data()); };
  const char* limit = begin() + out_.capacity();
  char* to = begin() + out_.size();
  *to++ = '"';
  const auto write = [&](const char* at, char*& place) __attribute__((always_inline)) {
    const char* const next = write_special(place, at, end);
    // Always enough for the rest as it is, and one escape.
    const std::size_t needed = static_cast<std::size_t>(end - next) + kSpare;
    if (static_cast<std::size_t>(limit - place) < needed) {
      out_.resize(static_cast<std::size_t>(place - begin()));
      out_.reserve(out_.size() + needed);
      limit = begin() + out_.capacity();
      place = begin() + out_.size();
    }
    return next;
  };
  to = copy_text(text.data(), end, to, write).to;
  *to++ = '"';
  out_.resize(static_cast<std::size_t>(to - begin()));
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) { return integer(number); }
JsonWriter& JsonWriter::value(std::uint64_t number) { return integer(number); }

template <typename Integer>
JsonWriter& JsonWriter::integer(Integer number) {
  std::array<char, 24> text;  // 20 digits and a sign at most
  const char* end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return raw({text.data(), static_cast<std::size_t>(end - text.data())});
}

JsonWriter& JsonWriter::value(double number) {
  if (!(number - number == 0)) return null();  // NaN or infinite
  std::array<char, 64> text{};
  char* end = std::to_chars(text.data(), text.data() + text.size() - 2, number).ptr;
  // A whole number stays what it was, no integer.
  const bool looks_whole = std::none_of(text.data(), end, [](char c) { return c == '.' || c == 'e'; });
  if (looks_whole) end = std::copy_n(".0", 2, end);
  return raw({text.data(), static_cast<std::size_t>(end - text.data())});
}

JsonWriter& JsonWriter::value(Value copied) {
  if (copied.is_object()) {
    begin_object();
    for (const auto& [name, content] : copied.members()) member(name, content);
    return end_object();
  }
  if (copied.is_array()) {
    begin_array();
    for (const Value item : copied.items()) value(item);
    return end_array();
  }
  if (const auto text = copied.as_string()) return value(*text);
  if (const auto json = copied.as_raw()) return raw(*json);
  if (const auto flag = copied.as_bool()) return value(*flag);
  if (const auto whole = copied.as_int()) return value(*whole);
  if (const auto huge = copied.as_uint()) return value(*huge);
  if (const auto number = copied.as_double()) return value(*number);
  return null();
}

JsonWriter& JsonWriter::verbatim(std::string_view text) {
  out_.append(text);
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_.append(json);
  return *this;
}

}  // namespace sallyport::wire

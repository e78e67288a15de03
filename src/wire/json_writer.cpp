#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/utf8.h"
#include "wire/json.h"
#include "wire/plain.h"

namespace sallyport::wire {
namespace {

// For each byte that has a short escape the two bytes of it; 0 for all others.
constexpr std::array<std::array<char, 2>, 256> kEscapes = [] {
  std::array<std::array<char, 2>, 256> table{};
  constexpr std::string_view kBytes = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  for (std::size_t i = 0; i < kBytes.size(); ++i) table.at(static_cast<unsigned char>(kBytes[i])) = {'\\', kLetters[i]};
  return table;
}();

constexpr std::size_t kLongestEscape = 6;
constexpr std::size_t kSliceBytes = 4096;

// Writes a control character with its number, or characters beyond ASCII.
Copied write_unusual(const char* from, const char* end, char* to) {
  if (const auto byte = static_cast<unsigned char>(*from); byte < 0x80) {
    constexpr std::string_view kHex = "0123456789abcdef";
    for (const char c : {'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]}) *to++ = c;
    return {from + 1, to};
  }
  while (from != end && static_cast<unsigned char>(*from) >= 0x80) {
    const std::size_t length = utf8_sequence({from, end});
    if (length == 0) {
      to = std::copy_n(kUtf8Replacement.data(), kUtf8Replacement.size(), to);
      return {from + 1, to};
    }
    to = std::copy_n(from, length, to);
    from += length;
  }
  return {from, to};
}

}  // namespace

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  out_.push_back(':');
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
#if defined(__SSE2__)
  // Most are short, and without escapes.
  if (text.size() - 1 < 15) {
    const __m128i bytes = load_few(text.data(), text.size());
    if ((special_16(bytes) & ((1U << text.size()) - 1)) == 0) {
      separate();
      out_.reserve(out_.size() + 1 + 16 + 1);
      out_.push_back('"');
      store_16(bytes, reinterpret_cast<char*>(out_.data() + out_.size()));
      out_.resize(out_.size() + text.size());
      out_.push_back('"');
      return *this;
    }
  }
#endif
  const char* from = text.data();
  const char* const end = from + text.size();
  // Room for the rest as it is, for all escapes of a slice, a comma and quotes, so that nobody need look.
  const auto make_room = [&](std::size_t used) {
    const auto rest = static_cast<std::size_t>(end - from);
    const std::size_t needed = used + rest + kLongestEscape * std::min(rest, kSliceBytes) + kPlainSlack + 3;
    out_.resize(used);
    if (out_.capacity() < needed) out_.reserve(needed + rest / 8);
    return reinterpret_cast<char*>(out_.data()) + used;
  };
  const auto used_up_to = [&](const char* to) {
    return static_cast<std::size_t>(to - reinterpret_cast<char*>(out_.data()));
  };
  char* to = make_room(out_.size());
  if (needs_comma_) *to++ = ',';
  needs_comma_ = true;
  *to++ = '"';
  while (from < end) {
    const char* const stop = from + std::min(static_cast<std::size_t>(end - from), kSliceBytes);
    const auto write = [&](const char* at, char* there) __attribute__((always_inline)) {
      const auto& escape = kEscapes[static_cast<unsigned char>(*at)];
      if (escape[0] == 0) return write_unusual(at, end, there);
      std::memcpy(there, escape.data(), escape.size());
      return Copied{at + 1, there + escape.size()};
    };
    const Copied copied = copy_text(from, stop, to, write);
    from = copied.from;
    to = from < end ? make_room(used_up_to(copied.to)) : copied.to;
  }
  *to++ = '"';
  out_.resize(used_up_to(to));
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) { return integer(number); }
JsonWriter& JsonWriter::value(std::uint64_t number) { return integer(number); }

template <typename Integer>
JsonWriter& JsonWriter::integer(Integer number) {
  constexpr std::size_t kLongest = 20;  // digits, or digits and a sign
  separate();
  const std::size_t used = out_.size();
  char* const text = reinterpret_cast<char*>(out_.extend(kLongest));
  out_.resize(used + static_cast<std::size_t>(std::to_chars(text, text + kLongest, number).ptr - text));
  return *this;
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

}  // namespace sallyport::wire

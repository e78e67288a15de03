#include "worker/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "worker/limits.h"

namespace sallyport::worker {
namespace {

constexpr auto make_costs() {
  std::array<std::uint8_t, 256> costs{};
  for (std::size_t i = 0; i < costs.size(); ++i)
    costs[i] = static_cast<std::uint8_t>(escaped_cost(static_cast<char>(i)));
  return costs;
}
constexpr auto kCosts = make_costs();

std::size_t cost(char c) { return kCosts[static_cast<unsigned char>(c)]; }

}  // namespace

void append_utf8(std::string& text, std::uint32_t point) {
  const bool is_none = point > 0x10ffff || (point >= 0xd800 && point < 0xe000);
  if (is_none) point = 0xfffd;
  if (point < 0x80) {
    text += static_cast<char>(point);
    return;
  }
  constexpr std::array<unsigned, 4> kLead = {0, 0xc0, 0xe0, 0xf0};
  const unsigned following = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  text += static_cast<char>(kLead[following] | point >> (6 * following));
  for (unsigned left = following; left > 0; --left) text += static_cast<char>(0x80 | (point >> (6 * (left - 1)) & 63));
}

std::string utf16_to_utf8(std::string_view bytes, bool is_big_endian) {
  const auto unit = [&](std::size_t at) -> std::uint32_t {
    if (at + 1 >= bytes.size()) return 0xdfff;  // half a unit, or none
    const std::uint32_t first = static_cast<unsigned char>(bytes[at]);
    const std::uint32_t second = static_cast<unsigned char>(bytes[at + 1]);
    return is_big_endian ? first << 8 | second : second << 8 | first;
  };
  const auto is_low = [](std::uint32_t value) { return value >= 0xdc00 && value < 0xe000; };
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t at = unit(0) == 0xfeff ? 2 : 0; at < bytes.size(); at += 2) {
    std::uint32_t point = unit(at);
    const bool is_pair = point >= 0xd800 && point < 0xdc00 && at + 3 < bytes.size() && is_low(unit(at + 2));
    if (is_pair) {
      point = 0x10000 + ((point - 0xd800) << 10) + (unit(at + 2) - 0xdc00);
      at += 2;
    }
    append_utf8(text, point);
  }
  return text;
}

bool looks_binary(std::string_view bytes) {
  return std::memchr(bytes.data(), 0, std::min(bytes.size(), kBinaryProbeBytes)) != nullptr;
}

std::string_view whole_characters(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return bytes;
    if (byte < 0xc0) continue;
    const std::size_t wanted = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return wanted > back ? bytes.substr(0, bytes.size() - back) : bytes;
  }
  return bytes;
}

std::size_t shown_size(std::string_view bytes) {
  return is_utf8(bytes) ? escaped_size(bytes) : escaped_size(to_utf8_lossy(bytes));
}

std::size_t fitting_prefix(std::string_view text, std::size_t room) {
  std::size_t used = 0;
  std::size_t count = 0;
  while (count < text.size() && used + cost(text[count]) <= room) used += cost(text[count++]);
  return count == text.size() ? count : whole_characters(text.substr(0, count)).size();
}

std::string spell_name(std::string_view name) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string text;
  text.reserve(name.size());
  while (!name.empty()) {
    const std::size_t length = name[0] == '%' ? 0 : utf8_sequence(name);
    if (length == 0) {
      const auto byte = static_cast<unsigned char>(name[0]);
      text.append(1, '%').append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    }
    text.append(name.substr(0, length));
    name.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

std::optional<std::string> read_name(std::string_view text) {
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    if (text.size() - i < 3 || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
    name += static_cast<char>(byte);
    i += 2;
  }
  if (name.find('\0') != std::string::npos || spell_name(name) != text) return std::nullopt;
  return name;
}

}  // namespace sallyport::worker

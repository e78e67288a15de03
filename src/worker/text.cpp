#include "worker/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "worker/limits.h"

namespace sallyport::worker {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr auto make_costs() {
  std::array<std::uint8_t, 256> costs{};
  for (std::size_t i = 0; i < costs.size(); ++i)
    costs[i] = static_cast<std::uint8_t>(escaped_cost(static_cast<char>(i)));
  return costs;
}
constexpr auto kCosts = make_costs();

std::size_t cost(char c) { return kCosts[static_cast<unsigned char>(c)]; }

}  // namespace

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

std::size_t fitting_prefix(std::string_view text, std::size_t room) {
  std::size_t used = 0;
  std::size_t count = 0;
  while (count < text.size() && used + cost(text[count]) <= room) used += cost(text[count++]);
  return count == text.size() ? count : whole_characters(text.substr(0, count)).size();
}

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  const auto at = [&](std::size_t i) -> unsigned {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
  };
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const unsigned bits = (at(i) << 16) | (at(i + 1) << 8) | at(i + 2);
    text += kBase64[bits >> 18];
    text += kBase64[(bits >> 12) & 63];
    text += i + 1 < bytes.size() ? kBase64[(bits >> 6) & 63] : '=';
    text += i + 2 < bytes.size() ? kBase64[bits & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  static constexpr auto kValues = [] {
    std::array<std::int8_t, 256> values{};
    values.fill(-1);
    for (std::size_t i = 0; i < kBase64.size(); ++i)
      values[static_cast<unsigned char>(kBase64[i])] = static_cast<std::int8_t>(i);
    return values;
  }();
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  unsigned bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const std::int8_t value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<unsigned>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>((bits >> count) & 255);
    }
  }
  if ((bits & ((1U << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

std::size_t count_lines(std::string_view bytes) {
  return count_newlines(bytes) + (!bytes.empty() && bytes.back() != '\n' ? 1 : 0);
}

}  // namespace sallyport::worker

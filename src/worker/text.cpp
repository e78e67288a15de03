#include "worker/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "worker/limits.h"

namespace sallyport::worker {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// The length of the valid sequence at the start, or 0.
std::size_t sequence_length(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const auto follows = [&](std::size_t i) { return i < bytes.size() && (at(i) & 0xc0) == 0x80; };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return follows(1) ? 2 : 0;
  if (lead < 0xf0) {
    if (!follows(1) || !follows(2)) return 0;
    if (lead == 0xe0 && at(1) < 0xa0) return 0;    // overlong
    return lead == 0xed && at(1) >= 0xa0 ? 0 : 3;  // surrogates
  }
  if (lead > 0xf4 || !follows(1) || !follows(2) || !follows(3)) return 0;
  if (lead == 0xf0 && at(1) < 0x90) return 0;    // overlong
  return lead == 0xf4 && at(1) >= 0x90 ? 0 : 4;  // above U+10FFFF
}

// The length of the run of ASCII at the start, found eight bytes at a time.
std::size_t ascii_run(std::string_view bytes) {
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  while (i < bytes.size() && static_cast<unsigned char>(bytes[i]) < 0x80) ++i;
  return i;
}

constexpr auto make_costs() {
  std::array<std::uint8_t, 256> costs{};
  for (std::size_t i = 0; i < costs.size(); ++i)
    costs[i] = static_cast<std::uint8_t>(escaped_cost(static_cast<char>(i)));
  return costs;
}
constexpr auto kCosts = make_costs();

std::size_t cost(char c) { return kCosts[static_cast<unsigned char>(c)]; }

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (true) {
    bytes.remove_prefix(ascii_run(bytes));
    if (bytes.empty()) return true;
    const std::size_t length = sequence_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
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

std::string to_utf8_lossy(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    text += length == 0 ? kReplacement : bytes.substr(0, length);
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
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

#include "base/bytes.h"

#include <algorithm>
#include <array>

namespace sallyport {
namespace {

// The two digits of each byte.
constexpr auto kHex = [] {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<std::array<char, 2>, 256> digits{};
  for (std::size_t i = 0; i < digits.size(); ++i) digits.at(i) = {kDigits[i >> 4], kDigits[i & 15]};
  return digits;
}();
constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kBase64Url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void Bytes::grow(std::size_t wanted) {
  const std::size_t capacity = std::max<std::size_t>({wanted, capacity_ * 2, 256});
  // for_overwrite: a megabyte that recv() is about to fill need not be zeroed first.
  auto data = std::make_unique_for_overwrite<std::uint8_t[]>(capacity);
  if (size_ != 0) std::memcpy(data.get(), data_.get(), size_);
  data_ = std::move(data);
  capacity_ = capacity;
}

std::string to_hex(ByteView bytes) {
  std::string text(bytes.size() * 2, '\0');
  char* to = text.data();
  for (const std::uint8_t byte : bytes) {
    std::memcpy(to, kHex[byte].data(), 2);
    to += 2;
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = hex_digit(text[i]);
    const int low = hex_digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
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

std::string to_base64url(ByteView bytes) {
  std::string text;
  unsigned bits = 0;
  int count = 0;
  for (const std::uint8_t byte : bytes) {
    bits = (bits << 8) | byte;
    count += 8;
    while (count >= 6) {
      count -= 6;
      text += kBase64Url[(bits >> count) & 63];
    }
  }
  if (count > 0) text += kBase64Url[(bits << (6 - count)) & 63];
  return text;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto value = kBase64Url.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<unsigned>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>((bits >> count) & 255);
    }
  }
  // One spelling per value: left-over bits must be zero and fewer than a digit.
  if (count >= 6 || (bits & ((1U << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace sallyport

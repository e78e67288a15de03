#include "platform/file_store.h"

namespace sallyport::platform {
namespace {

constexpr std::size_t kMaxFileName = 240;

bool is_kept(unsigned char c, bool is_first) {
  return c > 0x20 && c != 0x7f && c != '/' && c != '%' && !(is_first && c == '.');
}

std::optional<unsigned char> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned char>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<unsigned char>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> encode_name(std::string_view key) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string name;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_kept(byte, name.empty())) {
      name.push_back(c);
    } else {
      name.push_back('%');
      name.push_back(kDigits[byte >> 4]);
      name.push_back(kDigits[byte & 15]);
    }
  }
  if (name.empty() || name.size() > kMaxFileName) return std::nullopt;
  return name;
}

std::optional<std::string> decode_name(std::string_view name) {
  std::string key;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      key.push_back(name[i]);
      continue;
    }
    if (i + 2 >= name.size()) return std::nullopt;
    const auto high = hex_digit(name[i + 1]), low = hex_digit(name[i + 2]);
    if (!high || !low) return std::nullopt;
    key.push_back(static_cast<char>(*high << 4 | *low));
    i += 2;
  }
  // Only what we would have written ourselves.
  return encode_name(key) == name ? std::optional(key) : std::nullopt;
}

}  // namespace sallyport::platform

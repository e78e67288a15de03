#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace sallyport {
namespace {

// The length of the run of ASCII at the start, found a block at a time.
std::size_t ascii_run(std::string_view text) {
  std::array<std::uint64_t, 4> words{};
  std::size_t i = 0;
  for (; i + sizeof words <= text.size(); i += sizeof words) {
    std::memcpy(words.data(), text.data() + i, sizeof words);
    if (((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080ULL) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

std::size_t utf8_sequence(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i) { return i < text.size() && (at(i) & 0xc0) == 0x80; };
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

bool is_utf8(std::string_view text) {
  for (;;) {
    text.remove_prefix(ascii_run(text));
    if (text.empty()) return true;
    const std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
}

std::string to_utf8_lossy(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    valid += length == 0 ? kUtf8Replacement : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return valid;
}

}  // namespace sallyport

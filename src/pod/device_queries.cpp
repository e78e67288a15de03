#include "pod/device_queries.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace sallyport::pod {
namespace {

constexpr std::size_t kLongestQuery = 8;
constexpr auto kAnswers = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"\x1b[c", "\x1b[?62;22c"},
    {"\x1b[0c", "\x1b[?62;22c"},
    {"\x1b[>c", "\x1b[>1;0;0c"},
    {"\x1b[>0c", "\x1b[>1;0;0c"},
    {"\x1b[5n", "\x1b[0n"},
    {"\x1b[6n", "\x1b[1;1R"},
    {"\x1b[?6n", "\x1b[?1;1R"},
});

}  // namespace

void DeviceQueries::feed(ByteView output, Bytes& answers) {
  auto at = output.begin();
  while (at != output.end()) {
    if (sequence_.empty()) {
      at = std::find(at, output.end(), 0x1b);
      if (at == output.end()) return;
    }
    const auto byte = static_cast<char>(*at++);
    if (byte == '\x1b') {
      sequence_.assign(1, byte);
      continue;
    }
    sequence_.push_back(byte);
    const bool is_open = sequence_.size() == 2 ? byte == '[' : byte >= 0x20 && byte < 0x40;
    if (is_open && sequence_.size() < kLongestQuery) continue;
    for (const auto& [query, answer] : kAnswers) {
      if (sequence_ == query) answers.append(answer);
    }
    sequence_.clear();
  }
}

}  // namespace sallyport::pod

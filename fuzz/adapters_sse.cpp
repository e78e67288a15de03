// Whatever a backend streams: read in one piece and in two, with the same events.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "adapters/sse.h"

using sallyport::adapters::SseReader;

namespace {

std::vector<std::string> read(std::string_view first, std::string_view second) {
  SseReader reader;
  std::vector<std::string> events;
  const auto take = [&](std::string_view data) { events.emplace_back(data); };
  if (reader.feed(first, take)) [[maybe_unused]]
    const auto fed = reader.feed(second, take);
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = size == 0 ? 0 : data[0] % size;
  if (read(text, {}) != read(text.substr(0, cut), text.substr(cut))) std::abort();
  return 0;
}

// A platform section as JSON: refused with a place, or read; and what is read is written and read to the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "platform/config.h"

using namespace sallyport;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tree = platform::tree_from_json(text, "f");
  if (!tree) return 0;
  const auto config = platform::parse_config(*tree, "f");
  if (!config) return config.error().message.starts_with("f:") ? 0 : (std::abort(), 0);
  const std::string written = platform::to_json(*config);
  const auto again = platform::parse_config(*platform::tree_from_json(written, "f"), "f");
  if (!again || platform::to_json(*again) != written) std::abort();
  return 0;
}

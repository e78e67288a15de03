// The encodings of base: what is decoded is spelled in one way only, and what is shown is harmless.
#include <cstdlib>

#include "base/base.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  const std::string_view text = as_text({data, size});
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };

  demand(from_hex(to_hex({data, size})) == text);
  demand(from_base64url(to_base64url({data, size})) == text);
  if (const auto decoded = from_base64url(text)) demand(to_base64url(as_bytes(*decoded)) == text);
  if (const auto decoded = from_hex(text)) demand(decoded->size() * 2 == text.size());

  const std::string shown = escape_for_display(text);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    demand(static_cast<unsigned char>(shown[i]) >= 0x20 && shown[i] != 0x7f);
    demand(shown[i] != '"' || (i > 0 && shown[i - 1] == '\\'));
  }
  // Shown text is UTF-8: escaping it again finds nothing but its own backslashes and quotes.
  std::size_t marks = 0;
  for (const char c : shown) marks += c == '\\' || c == '"' ? 1 : 0;
  demand(escape_for_display(shown).size() == shown.size() + marks);
  return 0;
}

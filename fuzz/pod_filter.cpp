// Whatever an agent prints: how it is cut makes no difference, a second pass changes nothing, and nothing that a
// terminal would answer is left.
#include <cstdlib>
#include <string>
#include <string_view>

#include "pod/terminal_filter.h"

namespace {

using namespace sallyport;

void demand(bool holds) {
  if (!holds) std::abort();
}

std::string filtered(ByteView in, std::size_t piece) {
  pod::TerminalFilter filter(pod::TerminalFilter::Queries::drop);
  Bytes out;
  while (!in.empty()) {
    const std::size_t size = std::min(piece, in.size());
    filter.feed(in.first(size), out);
    in = in.subspan(size);
  }
  return std::string(as_text(out.view()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView in{data, size};
  const std::string whole = filtered(in, SIZE_MAX);
  demand(filtered(in, 1) == whole);
  demand(filtered(in, 7) == whole);
  demand(filtered(as_bytes(whole), SIZE_MAX) == whole.substr(0, filtered(as_bytes(whole), SIZE_MAX).size()));
  demand(whole.size() <= 3 * size + 8);
  // No string that passes commands through, no answerback, no 8-bit control outside a character.
  for (const char* never : {"\x1bP", "\x1bk", "\x1b[?2048h", "\x1b_", "\x1b^", "\x1bX", "\x05", "\x1b[21t", "\x1b[c",
                            "\x1b[6n", "\xc2\x9d", "\xc2\x9b"}) {
    demand(whole.find(never) == std::string::npos);
  }
  for (std::size_t at = whole.find("\x1b]52;"); at != std::string::npos; at = whole.find("\x1b]52;", at + 1)) {
    const std::size_t data_at = whole.find(';', at + 5);
    demand(data_at == std::string::npos || data_at + 1 >= whole.size() || whole[data_at + 1] != '?');
  }
  return 0;
}

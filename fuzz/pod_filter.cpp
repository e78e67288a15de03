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

// A strict terminal's reading of what is left: every sequence is whole and of a known kind; only a command that is
// passed on as it comes (OSC) may be unfinished, and nothing in it is a control.
void read_strictly(std::string_view text) {
  std::size_t at = 0;
  const auto is_in = [&](int low, int high) {
    return at < text.size() && static_cast<unsigned char>(text[at]) >= low &&
           static_cast<unsigned char>(text[at]) <= high;
  };
  while ((at = text.find('\x1b', at)) != std::string_view::npos) {
    demand(++at < text.size());
    const char kind = text[at++];
    if (kind == '[') {
      while (is_in(0x30, 0x3f)) ++at;
      while (is_in(0x20, 0x2f)) ++at;
      demand(is_in(0x40, 0x7e));
    } else if (kind == ']') {
      int command = 0, digits = 0;
      for (; is_in('0', '9'); ++at, ++digits) command = command * 10 + text[at] - '0';
      demand(digits > 0 && digits <= 4);
      demand(command <= 2 || command == 4 || command == 5 || command == 7 || command == 8 || command == 52 ||
             command == 133 || (command >= 10 && command <= 19) || (command >= 104 && command <= 119));
      demand(at == text.size() || text[at] == ';' || text[at] == '\x1b');
      while (is_in(0x20, 0x7e) || is_in(0x80, 0xff)) ++at;
      if (at == text.size()) return;
      demand(text.substr(at, 2) == "\x1b\\");
      at += 2;
    } else if (std::string_view("()*+#").find(kind) != std::string_view::npos) {
      demand(is_in(0x30, 0x7e));
    } else {
      demand(std::string_view("6789=><cDEHMNOno|}~").find(kind) != std::string_view::npos);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView in{data, size};
  const std::string whole = filtered(in, SIZE_MAX);
  demand(filtered(in, 1) == whole);
  demand(filtered(in, 7) == whole);
  demand(filtered(as_bytes(whole), SIZE_MAX) == whole.substr(0, filtered(as_bytes(whole), SIZE_MAX).size()));
  demand(whole.size() <= 3 * size + 8);
  read_strictly(whole);
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

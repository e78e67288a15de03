#include "pod/escape_keys.h"

#include <string_view>

namespace sallyport::pod {
namespace {

// Of an answer to a device query at the front, which a terminal writes in one piece: ESC [ numbers R, c or n; that about
// keyboard modes, ESC [ ? number u; and what it tells of its focus, ESC [ I or O.
std::size_t answer_bytes(ByteView typed) {
  const std::string_view text = as_text(typed);
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;?>=", 2);
  if (end == std::string_view::npos) return 0;
  const bool is_answer = std::string_view("Rcn").find(text[end]) != std::string_view::npos ||
                         (text[end] == 'u' && text[2] == '?') || (end == 2 && (text[end] == 'I' || text[end] == 'O'));
  return is_answer ? end + 1 : 0;
}

}  // namespace

KeyCommand EscapeKeys::feed(ByteView typed, Bytes& out, std::size_t& used) {
  for (used = 0; used < typed.size();) {
    // Nobody typed it: an agent that asks and asks must not keep a person from typing a command.
    if (const std::size_t answer = answer_bytes(typed.subspan(used)); answer > 0) {
      out.append(typed.subspan(used, answer));
      used += answer;
      continue;
    }
    const auto key = static_cast<char>(typed[used++]);
    if (has_escape_) {
      has_escape_ = false;
      switch (key) {
        case '.':
          return KeyCommand::detach;
        case 't':
          return KeyCommand::take;
        case 'r':
          return KeyCommand::release;
        case '?':
          return KeyCommand::help;
        default:
          out.push_back(escape_);
          if (key == escape_) {
            is_at_line_start_ = false;
            continue;
          }
      }
    } else if (escape_ != '\0' && is_at_line_start_ && key == escape_) {
      has_escape_ = true;
      continue;
    }
    out.push_back(key);
    is_at_line_start_ = key == '\r' || key == '\n';
  }
  return KeyCommand::none;
}

}  // namespace sallyport::pod

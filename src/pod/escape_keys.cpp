#include "pod/escape_keys.h"

namespace sallyport::pod {

KeyCommand EscapeKeys::feed(ByteView typed, Bytes& out, std::size_t& used) {
  for (used = 0; used < typed.size();) {
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

#include "pod/escape_keys.h"

namespace sallyport::pod {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::string_view kOldMouse = "\x1b[M";
constexpr std::size_t kOldMouseBytes = 6, kLongest = 64;

enum class Sequence : std::uint8_t { begun, report, key, none };

// Of a whole ESC [ ..: the terminal's answers to device queries (R, c, n), to that about keyboard modes (? u), what it
// tells of its focus (I, O) and of the mouse (M, m).
bool is_report(std::string_view sequence) {
  const std::string_view body = sequence.substr(2, sequence.size() - 3);
  const bool is_numeric = body.find_first_not_of("0123456789;?>=<") == std::string_view::npos;
  const char prefix = body.empty() ? '\0' : body.front();
  switch (sequence.back()) {
    case 'R':
    case 'c':
    case 'n':
      return is_numeric;
    case 'u':
      return is_numeric && prefix == '?';
    case 'I':
    case 'O':
      return body.empty();
    case 'M':
      return is_numeric;
    case 'm':
      return is_numeric && prefix == '<';
    default:
      return false;
  }
}

// `none`: its last byte does not belong to what came before.
Sequence look_at(std::string_view sequence) {
  if (sequence.size() == 1) return Sequence::begun;
  if (sequence.size() == 2) return sequence[1] == '[' ? Sequence::begun : Sequence::none;
  if (sequence.starts_with(kOldMouse)) return sequence.size() < kOldMouseBytes ? Sequence::begun : Sequence::report;
  const char last = sequence.back();
  if (sequence.size() > kLongest || last < ' ' || last > '~') return Sequence::none;
  if (last < '@') return Sequence::begun;
  return is_report(sequence) ? Sequence::report : Sequence::key;
}

}  // namespace

// What stands between the escape character and its key waits with it; all else passes at once.
bool EscapeKeys::take_sequence(char key, Bytes& out) {
  sequence_.push_back(key);
  const Sequence kind = look_at(sequence_);
  if (kind == Sequence::none) sequence_.pop_back();
  if (kind != Sequence::none && !has_escape_) out.push_back(key);
  if (kind == Sequence::begun) return true;
  // Nobody typed a report: it must not keep a person from typing a command.
  if (kind != Sequence::report) {
    if (has_escape_) out.push_back(escape_);
    is_at_line_start_ = false;
  }
  if (has_escape_) out.append(std::string_view(sequence_));
  if (kind != Sequence::report) has_escape_ = false;
  sequence_.clear();
  return kind != Sequence::none;
}

KeyCommand EscapeKeys::feed(ByteView typed, Bytes& out, std::size_t& used) {
  for (used = 0; used < typed.size();) {
    const auto key = static_cast<char>(typed[used]);
    // At the end it is the key of that name: a terminal writes a sequence in one piece, nearly always.
    const bool begins = key == kEscape && used + 1 < typed.size();
    if ((begins || !sequence_.empty()) && take_sequence(key, out)) {
      ++used;
      continue;
    }
    ++used;
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

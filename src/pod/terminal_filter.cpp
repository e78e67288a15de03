#include "pod/terminal_filter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

namespace sallyport::pod {
namespace {

constexpr std::uint8_t kBell = 0x07, kCancel = 0x18, kSubstitute = 0x1a, kEscape = 0x1b, kDelete = 0x7f;
constexpr std::uint8_t kEnquiry = 0x05, kShiftOut = 0x0e;
constexpr std::size_t kMaxHeld = 1024;
constexpr std::string_view kStringEnd = "\x1b\\";

// Bytes that pass as they are: everything printable in ASCII and the usual controls. Eight at a time.
std::size_t plain_prefix(ByteView bytes) {
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    constexpr std::uint64_t kOnes = 0x0101010101010101U, kHighs = 0x8080808080808080U;
    // A byte equal to c makes (word ^ c...) zero there; the classic test may also hit its neighbour, which
    // only means a slower look at that word.
    const auto has = [&](std::uint8_t c) {
      const std::uint64_t x = word ^ (kOnes * c);
      return ((x - kOnes) & ~x & kHighs) != 0;
    };
    if ((word & kHighs) != 0 || has(kEscape) || has(kEnquiry) || has(kShiftOut)) break;
  }
  const auto is_plain = [](std::uint8_t c) { return c < 0x80 && c != kEscape && c != kEnquiry && c != kShiftOut; };
  while (i < bytes.size() && is_plain(bytes[i])) ++i;
  return i;
}

int number_in(std::string_view digits) {
  int number = -1;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return end == digits.data() + digits.size() && digits.size() <= 4 ? number : -1;
}

// Commands whose payload is only shown, remembered or set.
bool is_shown(int command) {
  return (command >= 0 && command <= 2) || command == 8 || command == 133 || (command >= 104 && command <= 119);
}
bool is_base64(std::uint8_t byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '+' ||
         byte == '/' || byte == '=';
}
// The numbers of a sequence, without the zeros in front of them.
template <typename Test>
bool any_number(std::string_view parameters, Test test) {
  while (!parameters.empty()) {
    const std::size_t end = std::min(parameters.find_first_of(";:"), parameters.size());
    std::string_view digits = parameters.substr(0, end);
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
    if (test(digits)) return true;
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
  }
  return false;
}
// Private modes that may be set and restored: keys of the cursor, reversed, wrapping, mouse, blinking, visible cursor,
// other screens, keypad, margins, focus, paste, updates at once, colour scheme. What a terminal
// would tell by itself whenever it is resized (2048), what changes how it reads sequences (a VT52, a Tektronix) or its
// keyboard (all keys as codes, 9001), what it cannot be given back from, and a mouse whose reports have no certain
// length (1005) is not among them.
constexpr std::array<std::string_view, 23> kModes = {"1",    "5",    "7",    "9",    "12",   "25",   "47",   "66",
                                                     "69",   "1000", "1001", "1002", "1003", "1004", "1006", "1015",
                                                     "1016", "1047", "1048", "1049", "2004", "2026", "2031"};
// Some terminals tell of it as soon as it is set, each time.
constexpr std::string_view kFocus = "1004";
constexpr std::array<std::string_view, 3> kOtherScreens = {"47", "1047", "1049"};
// Without a prefix: inserting, local echo, line feeds that return.
constexpr std::array<std::string_view, 3> kOldModes = {"4", "12", "20"};

template <typename Modes>
bool is_in(const Modes& modes, std::string_view digits) {
  return std::find(modes.begin(), modes.end(), digits) != modes.end();
}
// Not with ':' between them, which some terminals take for another number and some for none.
template <typename Modes>
bool are_in(const Modes& modes, std::string_view parameters) {
  return parameters.find(':') == std::string_view::npos &&
         !any_number(parameters, [&](std::string_view digits) { return !is_in(modes, digits); });
}

// Of ESC [ > FLAGS u and ESC [ = FLAGS ; HOW u: with all keys as codes, or each key told again when it is let go,
// nobody would find the keys that detach. False if it says what no terminal's grammar has.
bool leaves_plain_keys(std::string& sequence) {
  constexpr int kReleases = 2, kAllKeys = 8, kTheirText = 16;
  const std::size_t end = std::min(sequence.find(';'), sequence.size() - 1);
  std::string_view digits = std::string_view(sequence).substr(3, end - 3);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  const int flags = digits.empty() ? 0 : number_in(digits);
  if (flags >= 0) sequence.replace(3, end - 3, std::to_string(flags & ~(kReleases | kAllKeys | kTheirText)));
  return flags >= 0;
}

// Colours: a payload of "?" asks for them.
bool is_colour(int command) { return command == 4 || command == 5 || (command >= 10 && command <= 19); }

}  // namespace

void TerminalFilter::reset() {
  state_ = State::ground;
  held_.clear();
  utf8_.clear();
  utf8_left_ = 0;
  is_too_long_ = false;
  is_escape_in_string_ = false;
}

void TerminalFilter::feed(ByteView in, Bytes& out) {
  out.reserve(out.size() + in.size());
  while (!in.empty()) {
    if (state_ == State::ground && utf8_left_ == 0) {
      const std::size_t plain = plain_prefix(in);
      out.append(in.first(plain));
      in = in.subspan(plain);
      if (in.empty()) return;
    }
    step(in[0], out);
    in = in.subspan(1);
  }
}

void TerminalFilter::step(std::uint8_t byte, Bytes& out) {
  switch (state_) {
    case State::ground:
      if (byte == kEscape) return begin_escape(out);
      return emit_text(byte, out);
    case State::escape:
    case State::charset:
      return step_escape(byte, out);
    case State::csi:
      return step_csi(byte, out);
    case State::osc_number:
      return step_osc_number(byte, out);
    case State::osc_selection:
    case State::osc_data:
    case State::osc_held:
    case State::osc_passed:
    case State::string_dropped:
      return step_string(byte, out);
  }
}

void TerminalFilter::begin_escape(Bytes& out) {
  if (utf8_left_ > 0) out.push_back('?');
  utf8_left_ = 0;
  utf8_.clear();
  held_.assign(1, '\x1b');
  is_too_long_ = false;
  state_ = State::escape;
}

void TerminalFilter::hold(std::uint8_t byte) {
  if (held_.size() < kMaxHeld) {
    held_.push_back(static_cast<char>(byte));
  } else {
    is_too_long_ = true;
  }
}

// Text: whole UTF-8 characters pass; C1 controls, in either form, do not.
void TerminalFilter::emit_text(std::uint8_t byte, Bytes& out) {
  if (utf8_left_ > 0) {
    if ((byte & 0xc0) == 0x80) {
      utf8_.push_back(static_cast<char>(byte));
      if (--utf8_left_ > 0) return;
      const auto second = static_cast<std::uint8_t>(utf8_[1]);
      const auto first = static_cast<std::uint8_t>(utf8_[0]);
      const bool is_c1 = first == 0xc2 && second < 0xa0;
      const bool is_overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
      const bool is_beyond = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
      if (is_c1 || is_overlong || is_beyond) {
        out.push_back('?');
      } else {
        out.append(std::string_view(utf8_));
      }
      utf8_.clear();
      return;
    }
    utf8_left_ = 0;
    utf8_.clear();
    out.push_back('?');
    return step(byte, out);
  }
  if (byte < 0x80) {
    has_left_traces_ = has_left_traces_ || byte == kShiftOut;
    if (byte != kEnquiry) out.push_back(static_cast<char>(byte));
    return;
  }
  const std::size_t more = byte >= 0xc2 && byte <= 0xdf   ? 1
                           : (byte & 0xf0) == 0xe0        ? 2
                           : byte >= 0xf0 && byte <= 0xf4 ? 3
                                                          : 0;
  if (more == 0) {
    out.push_back('?');
    return;
  }
  utf8_.assign(1, static_cast<char>(byte));
  utf8_left_ = more;
}

void TerminalFilter::step_escape(std::uint8_t byte, Bytes& out) {
  if (byte == kEscape) return begin_escape(out);
  if (byte == kCancel || byte == kSubstitute || byte >= 0x80) {
    state_ = State::ground;
    if (byte >= 0x80) emit_text(byte, out);
    return;
  }
  if (byte < 0x20 || byte == kDelete) return;  // terminals disagree on controls inside a sequence
  hold(byte);
  if (byte < 0x30) {
    state_ = State::charset;
    return;
  }
  if (state_ == State::escape) {
    switch (byte) {
      case '[':
        state_ = State::csi;
        return;
      case ']':
        state_ = State::osc_number;
        return;
      case 'P':
      case 'X':
      case '^':
      case '_':
      case 'k':
        state_ = State::string_dropped;
        is_escape_in_string_ = false;
        return;
      case '\\':
        state_ = State::ground;  // the end of a string that is none
        return;
      default:
        break;
    }
  }
  state_ = State::ground;
  const bool is_query = held_ == "\x1bZ";
  // Cursor, margins, keypad, character sets, reset; no tabs, which nobody can put back. Of what others make a terminal
  // do, some is answered: ESC G of rxvt. Of sequences with more than one byte: character sets, and the alignment
  // pattern. Others change how bytes are read (ESC % @ leaves UTF-8, and then half a character can be a control) or
  // what the terminal sends.
  const std::string_view known = held_.size() == 2 ? "6789=><cDEMNOZno|}~" : "()*+#";
  if (held_.size() > 3 || known.find(held_[1]) == std::string_view::npos) return;
  if (is_too_long_ || (is_query && !may_ask())) return;
  has_left_traces_ = true;
  out.append(std::string_view(held_));
}

bool TerminalFilter::may_ask() { return queries_ == Queries::pass && may_be_answered(); }

bool TerminalFilter::may_be_answered() {
  if (queries_left_ == 0) return false;
  --queries_left_;
  return true;
}

void TerminalFilter::step_csi(std::uint8_t byte, Bytes& out) {
  if (byte == kEscape) return begin_escape(out);
  if (byte == kCancel || byte == kSubstitute || byte >= 0x80) {
    state_ = State::ground;
    if (byte >= 0x80) emit_text(byte, out);
    return;
  }
  if (byte < 0x20 || byte == kDelete) return;
  hold(byte);
  if (byte < 0x40) return;
  state_ = State::ground;
  if (is_too_long_ || !is_csi_allowed(static_cast<char>(byte))) return;
  const bool has_prefix = held_[2] >= '<' && held_[2] <= '?';
  if (byte == 'm' && !has_prefix) {
    is_coloured_ = held_.find_first_not_of("0;", 2) != held_.size() - 1;
  } else if (has_prefix ||
             std::string_view("@ABCDEFGHIJKLMPSTXZ^`abdef").find(held_.back()) == std::string_view::npos) {
    has_left_traces_ = true;  // more than the cursor and the text were moved
  }
  if (byte == 'u' && (held_[2] == '>' || held_[2] == '=') && !leaves_plain_keys(held_)) return;
  // Some terminals write shifted keys as codes then, and on many keyboards that which detaches is one.
  if (held_ == "\x1b[>4;2m") held_ = "\x1b[>4;1m";
  if (held_[2] == '?' && (byte == 'h' || byte == 'r') && !take_out_focus()) return;
  if (held_[2] == '?') note_mode(static_cast<char>(byte));
  out.append(std::string_view(held_));
}

// As far as it may not be told of. False if nothing else was asked for.
bool TerminalFilter::take_out_focus() {
  std::string left;
  any_number(std::string_view(held_).substr(3, held_.size() - 4), [&](std::string_view digits) {
    if (digits != kFocus || may_be_answered()) (left += digits) += ';';
    return false;
  });
  if (left.empty()) return false;
  left.back() = held_.back();
  held_.replace(3, held_.size() - 3, left);
  return true;
}

void TerminalFilter::note_mode(char final_byte) {
  const std::string_view parameters = std::string_view(held_).substr(3, held_.size() - 4);
  if (final_byte == 's') return;
  any_number(parameters, [&](std::string_view digits) {
    const auto screen = std::find(kOtherScreens.begin(), kOtherScreens.end(), digits);
    if (screen == kOtherScreens.end()) return false;
    const unsigned bit = 1U << (screen - kOtherScreens.begin());
    other_screens_ = final_byte == 'l' ? other_screens_ & ~bit : other_screens_ | bit;
    ++screen_switches_;
    return false;
  });
}

// held_ is the whole sequence: ESC [ prefix? parameters intermediates? final.
bool TerminalFilter::is_csi_allowed(char final_byte) {
  const std::string_view body = std::string_view(held_).substr(2, held_.size() - 3);
  const std::size_t parameters_end = std::min(body.find_first_not_of("0123456789:;<=>?"), body.size());
  const std::string_view intermediates = body.substr(parameters_end);
  std::string_view parameters = body.substr(0, parameters_end);
  // Something behind the intermediates that belongs in front of them: no terminal's grammar.
  if (intermediates.find_first_of("0123456789:;<=>?") != std::string_view::npos) return false;
  char prefix = 0;
  if (!parameters.empty() && parameters[0] >= '<') {
    prefix = parameters[0];
    parameters.remove_prefix(1);
  }
  if (parameters.find_first_of("<=>?") != std::string_view::npos) return false;
  // Nobody means so many; a terminal might take the number for another one, or do something that often.
  if (any_number(parameters, [](std::string_view digits) { return digits.size() > 5; })) return false;
  if (!intermediates.empty()) {
    // Soft reset, cursor style and protection; rectangles and columns that only draw.
    constexpr std::string_view kHarmless[] = {"!p", " q", "\"q", "$r", "$t", "$v", "$x",
                                              "$z", "${", "'}",  "'~", " @", " A"};
    const std::string what = std::string(intermediates) + final_byte;
    return prefix == 0 && std::find(std::begin(kHarmless), std::end(kHarmless), what) != std::end(kHarmless);
  }
  const auto is_one_of = [final_byte](std::string_view finals) {
    return finals.find(final_byte) != std::string_view::npos;
  };
  const bool is_default = parameters.empty() || parameters == "0";
  const std::string_view first = parameters.substr(0, parameters.find(';'));
  switch (prefix) {
    case 0:
      if (final_byte == 'c') return is_default && may_ask();
      if (final_byte == 'n') {
        if ((parameters != "5" && parameters != "6") || !may_ask()) return false;
        status_queries_ += parameters == "5" ? 1 : 0;
        return true;
      }
      if (final_byte == 't') return first == "22" || first == "23";
      if (is_one_of("hl")) return are_in(kOldModes, parameters);
      // Cursor, erasing, inserting, scrolling, colours, margins. Among others the Linux console has one that shows
      // another console.
      return is_one_of("@ABCDEFGHIJKLMPSTXZ^`abdefjkmrsu");
    case '?':
      if (final_byte == 'n') return parameters == "6" && may_ask();
      if (final_byte == 'u') return parameters.empty() && may_ask();
      if (is_one_of("hlrs")) return are_in(kModes, parameters);
      return is_one_of("JK");
    case '>':
      if (final_byte == 'c') return is_default && may_ask();
      // Of the keys those that are given back, and not so that all of them are codes.
      if (final_byte == 'm') {
        return parameters == "4" || parameters == "4;" || parameters == "4;0" || parameters == "4;1" ||
               parameters == "4;2";
      }
      if (final_byte == 'n') return parameters == "4";
      return final_byte == 'u';
    case '=':
      return final_byte == 'u';  // and not the unit's number: its answer is a string, which nobody looks for among keys
    default:
      return final_byte == 'u';  // '<': ends a keyboard mode
  }
}

// ESC ] and what came so far are held. Digits, then ';' or the end.
void TerminalFilter::step_osc_number(std::uint8_t byte, Bytes& out) {
  is_escape_in_string_ = false;
  if (byte >= '0' && byte <= '9') return hold(byte);
  // A control that terminals skip would join what follows it to the number.
  const bool is_ended = byte == ';' || byte == kEscape || byte == kBell || byte == kCancel || byte == kSubstitute;
  const int command = is_too_long_ || !is_ended ? -1 : number_in(std::string_view(held_).substr(2));
  if (is_shown(command)) {
    state_ = State::osc_passed;
    has_left_traces_ = true;
    out.append(std::string_view(held_));
  } else if (is_colour(command)) {
    state_ = State::osc_held;
  } else if (command == 52 && byte == ';') {
    state_ = State::osc_selection;
  } else {
    state_ = State::string_dropped;
  }
  step_string(byte, out);
}

// Inside a string, up to its end. Whatever ends it, the terminal gets one and the same end.
void TerminalFilter::step_string(std::uint8_t byte, Bytes& out) {
  if (is_escape_in_string_) {
    is_escape_in_string_ = false;
    end_string(out);
    if (byte == '\\') return;
    begin_escape(out);
    return step(byte, out);
  }
  if (byte == kEscape) {
    is_escape_in_string_ = true;
    return;
  }
  // BEL ends an OSC everywhere and the other strings in some terminals.
  if (byte == kBell || byte == kCancel || byte == kSubstitute) return end_string(out);
  switch (state_) {
    case State::osc_passed:
      // Other controls have no place here, and text must be text.
      if (byte >= 0x20 && byte != kDelete) emit_text(byte, out);
      return;
    case State::osc_selection:
      hold(byte);
      // "52;c;" and then the data: base64, or "?" to ask for the clipboard.
      if (byte == ';') return;
      if (std::count(held_.begin(), held_.end(), ';') < 2) {
        if (std::string_view("cpqs01234567").find(static_cast<char>(byte)) == std::string_view::npos) {
          state_ = State::string_dropped;
        }
        return;
      }
      state_ = is_base64(byte) && !is_too_long_ ? State::osc_data : State::string_dropped;
      if (state_ == State::osc_data) {
        has_left_traces_ = true;
        out.append(std::string_view(held_).substr(0, held_.size() - 1));
        step_string(byte, out);
      }
      return;
    case State::osc_data:
      if (is_base64(byte)) out.push_back(static_cast<char>(byte));
      return;
    case State::osc_held:
      if (byte == '?' || byte < 0x20 || byte >= kDelete) {
        state_ = State::string_dropped;
      } else {
        hold(byte);
      }
      return;
    default:
      return;
  }
}

void TerminalFilter::end_string(Bytes& out) {
  if (utf8_left_ > 0) out.push_back('?');
  utf8_left_ = 0;
  utf8_.clear();
  const bool sets_colours = state_ == State::osc_held && !is_too_long_;
  has_set_colours_ = has_set_colours_ || sets_colours;
  has_left_traces_ = has_left_traces_ || sets_colours;
  if (sets_colours) out.append(std::string_view(held_));
  if (state_ == State::osc_passed || state_ == State::osc_data || sets_colours) out.append(kStringEnd);
  state_ = State::ground;
}

}  // namespace sallyport::pod

// What an agent prints on its way to a human's terminal.
//
// A terminal answers certain sequences by typing: an agent that prints them could read the clipboard, or have
// its own words typed into whatever reads the terminal next. Such sequences are taken out:
//   - reports of the title, of window and other settings, of the screen's content; printing;
//   - queries of the clipboard and of colours (setting them is allowed);
//   - every device control, application, privacy and start-of string (DCS, APC, PM, SOS): they pass commands
//     through to the terminal, and some terminals read files by them; so are titles for screen and tmux (ESC k);
//   - the mode in which a terminal tells its size by itself (?2048), which it does at once;
//   - modes in which it reads sequences otherwise (VT52, Tektronix, conformance levels);
//   - operating system commands (OSC), sequences of two bytes and control sequences (CSI) that are not known to be
//     harmless, and modes that lock the keyboard;
//   - the 8-bit forms of controls, which terminals disagree about, and the answerback request.
//   - modes that are not known to be given back afterwards, and of the keyboard's those in which all keys, or shifted
//     ones, are codes.
// Device queries, and requests to be told of the focus, pass while they may (see set_queries).
// Ordinary output, colours, cursor movement, titles, links and other modes pass unchanged. Bytes that are no UTF-8
// become '?', since a terminal might take them for 8-bit controls.
//
// A streaming state machine: how the input is cut makes no difference. Needs a bounded amount of memory; a
// sequence longer than that is dropped.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace sallyport::pod {

class TerminalFilter {
 public:
  // Device queries (what are you, where is the cursor) are the terminal's to answer while it controls the pod.
  // In a repaint, or for a viewer, nobody waits for the answers.
  enum class Queries : std::uint8_t { pass, drop };
  explicit TerminalFilter(Queries queries)
      : queries_(queries), queries_left_(queries == Queries::pass ? SIZE_MAX : 0) {}

  void feed(ByteView in, Bytes& out);
  // At most so many pass, with requests to tell of the focus, which some terminals do at once, and which mean something
  // in a repaint, too: each is answered by typing.
  void set_queries(Queries queries, std::size_t most) {
    queries_ = queries;
    queries_left_ = most;
  }
  std::size_t queries_left() const { return queries_left_; }
  // How many that passed are answered by ESC [ 0 n.
  std::size_t status_queries() const { return status_queries_; }
  // After a gap: whatever was begun is forgotten.
  void reset();
  // Whether anything went through that outlasts the text, such as a mode; whether what follows would be coloured.
  bool has_left_traces() const { return has_left_traces_; }
  bool is_coloured() const { return is_coloured_; }
  // Whether any went through that set the colours themselves.
  bool has_set_colours() const { return has_set_colours_; }
  // Whether the terminal may show its other screen now, as editors use it; and how often it was told to show one or
  // not. There are three modes for it, and terminals disagree on whether one ends another, and on whether a reset does.
  bool is_on_other_screen() const { return other_screens_ != 0; }
  std::uint64_t screen_switches() const { return screen_switches_; }

 private:
  enum class State : std::uint8_t {
    ground,
    escape,         // ESC came
    charset,        // ESC and intermediates
    csi,            // ESC [
    osc_number,     // ESC ] and digits
    osc_selection,  // of 52, up to its data
    osc_data,       // of 52: base64 passes, nothing else
    osc_held,       // decided at its end
    osc_passed,     // allowed; passed on as it comes
    string_dropped,
  };

  void step(std::uint8_t byte, Bytes& out);
  void step_escape(std::uint8_t byte, Bytes& out);
  void step_csi(std::uint8_t byte, Bytes& out);
  void step_osc_number(std::uint8_t byte, Bytes& out);
  void step_string(std::uint8_t byte, Bytes& out);
  void begin_escape(Bytes& out);
  void end_string(Bytes& out);
  void emit_text(std::uint8_t byte, Bytes& out);
  bool is_csi_allowed(char final_byte);
  bool take_out_focus();
  void note_mode(char final_byte);
  bool may_ask();
  bool may_be_answered();
  void hold(std::uint8_t byte);

  Queries queries_;
  std::size_t queries_left_;
  std::size_t status_queries_ = 0;
  State state_ = State::ground;
  std::string held_;  // the sequence so far, while it is undecided
  std::string utf8_;  // the character so far
  std::size_t utf8_left_ = 0;
  bool is_too_long_ = false;
  bool is_escape_in_string_ = false;
  bool has_left_traces_ = false;
  bool is_coloured_ = false;
  bool has_set_colours_ = false;
  unsigned other_screens_ = 0;  // a bit for each mode that was set
  std::uint64_t screen_switches_ = 0;
};

}  // namespace sallyport::pod

// Where what comes out of a sandbox is printed to. A terminal gets what its filter lets pass (see terminal_filter.h),
// and is given back as it was, also by the signals with which people end or stop what they follow; anything else gets
// the bytes.
#pragma once

#include <array>
#include <csignal>

#include "base/base.h"
#include "base/bytes.h"
#include "pod/terminal_filter.h"

namespace sallyport::pod {

class Display {
 public:
  explicit Display(int out);
  ~Display();
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  Status write(ByteView bytes);
  // What follows a gap is another line than what was before it.
  Status skip();

 private:
  // SIGCONT behind SIGTSTP, which it takes again.
  static constexpr std::array kSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT};
  static void take_signal(int number);
  static void give_back(int fd, bool with_new_line);
  // For the handler.
  static inline int terminal_ = -1;
  static inline volatile std::sig_atomic_t has_traces_ = 0, has_colours_ = 0;
  // Of a command's output and its errors, which may be one terminal: a flag each.
  static inline volatile std::sig_atomic_t coloured_ = 0, on_other_screen_ = 0;
  void note(volatile std::sig_atomic_t& flags, bool is_set) const;

  int out_;
  bool is_terminal_;
  int own_flag_;
  bool is_at_line_start_ = true;
  bool is_cut_ = false;
  TerminalFilter filter_{TerminalFilter::Queries::drop};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace sallyport::pod

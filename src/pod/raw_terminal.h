// A person's terminal that is lent: raw while this lives, then as it was. Meanwhile the signals that end or resize it
// are read here instead of taking effect.
#pragma once

#include <termios.h>

#include <csignal>

#include "base/unique_fd.h"

namespace sallyport::pod {

class RawTerminal {
 public:
  // Of anything but a terminal only the signals are taken.
  explicit RawTerminal(int fd);
  // What was typed and not read is thrown away: the terminal's answers are not for whoever reads it next. One that
  // takes nothing is not waited for.
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  int signals() const { return signals_.get(); }  // readable when there is one
  int next_signal() const;                        // 0: none

 private:
  int fd_;
  termios before_{};
  bool is_terminal_;
  sigset_t mask_before_{};
  UniqueFd signals_;
};

}  // namespace sallyport::pod

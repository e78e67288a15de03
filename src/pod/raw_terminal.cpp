#include "pod/raw_terminal.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace sallyport::pod {

RawTerminal::RawTerminal(int fd) : fd_(fd), is_terminal_(::tcgetattr(fd, &before_) == 0) {
  sigset_t set{};
  ::sigemptyset(&set);
  for (const int number : {SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGQUIT}) ::sigaddset(&set, number);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  ::sigaddset(&set, SIGPIPE);  // that of a pipe without a reader waits
  ::sigprocmask(SIG_BLOCK, &set, &mask_before_);
  if (!is_terminal_) return;
  termios raw = before_;
  ::cfmakeraw(&raw);
  ::tcsetattr(fd_, TCSADRAIN, &raw);
}

RawTerminal::~RawTerminal() {
  if (is_terminal_) {
    ::tcsetattr(fd_, TCSANOW, &before_);
    ::tcflush(fd_, TCIFLUSH);
  }
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

int RawTerminal::next_signal() const {
  signalfd_siginfo info{};
  const bool is_there = ::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info);
  return is_there ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace sallyport::pod

#include "pod/display.h"

#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "os/files.h"
#include "pod/give_back.h"
#include "pod/limits.h"

namespace sallyport::pod {

Display::Display(int out) : out_(out), is_terminal_(::isatty(out) != 0), own_flag_(out == STDERR_FILENO ? 2 : 1) {
  if (!is_terminal_) return;
  terminal_ = out;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before_[i]);
    // That of a stop which is ignored has nothing to go on from.
    const struct sigaction& decides = kSignals[i] == SIGCONT ? before_[i - 1] : before_[i];
    if (decides.sa_handler != SIG_IGN) take_signal(kSignals[i]);
  }
}

// As if it had not been caught, once the handler returns. A stop takes effect each time.
void Display::take_signal(int number) {
  struct sigaction action{};
  action.sa_handler = [](int came) {
    const int error = errno;
    if (came == SIGCONT) {
      take_signal(SIGTSTP);
    } else {
      give_back(terminal_, true);
      ::raise(came);
    }
    errno = error;
  };
  action.sa_flags = static_cast<int>(number == SIGCONT ? SA_RESTART : SA_RESETHAND);
  ::sigaction(number, &action, nullptr);
}

Display::~Display() {
  if (!is_terminal_) return;
  give_back(out_, !is_at_line_start_);
  // That which takes another again first.
  for (std::size_t i = kSignals.size(); i-- > 0;) ::sigaction(kSignals[i], &before_[i], nullptr);
}

Status Display::write(ByteView bytes) {
  if (!is_terminal_) return os::write_patiently(out_, bytes);
  Bytes filtered;
  const std::uint64_t switches = filter_.screen_switches();
  if (std::exchange(is_cut_, false)) filtered.append(kOutOfSequence);
  filter_.feed(bytes, filtered);
  if (filter_.has_left_traces()) has_traces_ = 1;
  note(coloured_, filter_.is_coloured());
  if (filter_.has_set_colours()) has_colours_ = 1;
  // Which of several is shown while they are written nobody knows.
  if (filter_.screen_switches() != switches) note(on_other_screen_, true);
  if (!filtered.empty()) is_at_line_start_ = filtered.view().back() == '\n';
  TRY(os::write_patiently(out_, filtered.view()));
  note(on_other_screen_, filter_.is_on_other_screen());
  return ok();
}

Status Display::skip() {
  filter_.reset();
  is_cut_ = true;
  return write(as_bytes("\n"));
}

void Display::note(volatile std::sig_atomic_t& flags, bool is_set) const {
  flags = is_set ? flags | own_flag_ : flags & ~own_flag_;
}

// All at once: a terminal that takes nothing is waited for once.
void Display::give_back(int fd, bool with_new_line) {
  std::array<iovec, 5> parts{};
  int count = 0;
  const auto tell = [&](std::string_view text) {
    parts.at(static_cast<std::size_t>(count++)) = {const_cast<char*>(text.data()), text.size()};
  };
  if (coloured_ != 0) tell(kPlain);
  if (has_traces_ != 0) {
    if (on_other_screen_ != 0) tell(kLeaveScreen);
    tell(kGiveBack);
    if (has_colours_ != 0) tell(kColoursBack);
    if (with_new_line) tell(kNewLine);
  }
  pollfd writable{fd, POLLOUT, 0};
  if (count == 0 || ::poll(&writable, 1, static_cast<int>(kLastAnswers.count())) != 1) return;
  [[maybe_unused]] const ssize_t written = ::writev(fd, parts.data(), count);
}

}  // namespace sallyport::pod

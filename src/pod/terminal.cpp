#include "pod/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "pod/limits.h"

namespace sallyport::pod {

bool Size::is_sane() const { return rows >= 1 && rows <= kMaxRows && columns >= 1 && columns <= kMaxColumns; }

std::optional<Size> read_size(wire::Value value) {
  const auto rows = value.get("rows").as_int(), columns = value.get("columns").as_int();
  if (!rows || !columns || *rows > kMaxRows || *columns > kMaxColumns) return std::nullopt;
  const Size size{static_cast<int>(*rows), static_cast<int>(*columns)};
  if (!size.is_sane()) return std::nullopt;
  return size;
}

void write_size(wire::JsonWriter& json, const Size& size) {
  json.key("size").begin_object().member("rows", size.rows).member("columns", size.columns).end_object();
}

Result<Terminal> open_terminal(const Size& size) {
  Terminal terminal;
  terminal.master = UniqueFd(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!terminal.master) return Error::from_errno("cannot open a pseudo-terminal", errno);
  int unlocked = 0;
  if (::ioctl(terminal.master.get(), TIOCSPTLCK, &unlocked) != 0) {
    return Error::from_errno("cannot unlock a pseudo-terminal", errno);
  }
  // Not by its path: whatever is mounted at /dev/pts may not be where it lives.
  terminal.slave = UniqueFd(::ioctl(terminal.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.slave) return Error::from_errno("cannot open a pseudo-terminal", errno);
  termios modes{};
  if (::tcgetattr(terminal.slave.get(), &modes) == 0) {
    modes.c_iflag |= IUTF8;
    ::tcsetattr(terminal.slave.get(), TCSANOW, &modes);
  }
  set_size(terminal.master.get(), size);
  return terminal;
}

void set_size(int master, const Size& size) {
  winsize window{};
  window.ws_row = static_cast<unsigned short>(size.rows);
  window.ws_col = static_cast<unsigned short>(size.columns);
  ::ioctl(master, TIOCSWINSZ, &window);
}

bool are_interrupting(int master, ByteView keys) {
  termios modes{};
  if (::tcgetattr(master, &modes) != 0 || (modes.c_lflag & ISIG) == 0 || (modes.c_lflag & NOFLSH) != 0) return false;
  return std::any_of(keys.begin(), keys.end(), [&](std::uint8_t key) {
    return key != _POSIX_VDISABLE && (key == modes.c_cc[VINTR] || key == modes.c_cc[VQUIT] || key == modes.c_cc[VSUSP]);
  });
}

}  // namespace sallyport::pod

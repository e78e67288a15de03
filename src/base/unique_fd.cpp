#include "base/unique_fd.h"

#include <unistd.h>

#include <cerrno>

namespace sallyport {

void UniqueFd::reset() {
  if (fd_ < 0) return;
  const int saved = errno;
  ::close(std::exchange(fd_, -1));
  errno = saved;
}

}  // namespace sallyport

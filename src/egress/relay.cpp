#include "egress/relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "egress/limits.h"

namespace sallyport::egress {
namespace {

bool is_retry(int error_number) { return error_number == EAGAIN || error_number == EINTR; }

// Sends as much as goes without waiting; -1 if the other side is gone.
ssize_t send_some(int to, std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::send(to, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

Task<bool> send_all(ipc::Watch& to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send_some(to.fd(), bytes);
    if (sent < 0) co_return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (!bytes.empty() && !co_await to.writable()) co_return false;
  }
  co_return true;
}

Task<bool> relay(ipc::Watch& from, ipc::Watch& to, Bytes& block, const Meter& meter) {
  std::size_t reach = block.size();  // what cannot be sent is copied again: little, where little went before
  // Waiting each time, though more may be there: the others have their turn in between.
  for (;;) {
    const bool is_readable = co_await from.readable();
    if (!is_readable) co_return false;
    const ssize_t seen = ::recv(from.fd(), block.data(), reach, MSG_PEEK | MSG_DONTWAIT);
    if (seen == 0) co_return true;
    if (seen < 0 && is_retry(errno)) continue;
    if (seen < 0) co_return false;
    const std::size_t size = meter.allow(static_cast<std::size_t>(seen));
    if (size == 0) co_return false;
    const ssize_t sent = send_some(to.fd(), as_text(block.view().first(size)));
    if (sent < 0) co_return false;
    // What has been sent is taken, without another copy.
    if (sent > 0 && ::recv(from.fd(), nullptr, static_cast<std::size_t>(sent), MSG_TRUNC | MSG_DONTWAIT) != sent)
      co_return false;
    if (sent > 0) meter.count(static_cast<std::size_t>(sent));
    if (static_cast<std::size_t>(sent) == size) {
      reach = std::min(2 * reach, block.size());
      continue;
    }
    reach = std::max(static_cast<std::size_t>(sent), kLeastBlockBytes);
    const bool is_writable = co_await to.writable();
    if (!is_writable) co_return false;
  }
}

}  // namespace sallyport::egress

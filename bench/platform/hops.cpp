#include "hops.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "relay.h"

namespace sallyport::bench {
namespace {

std::pair<UniqueFd, UniqueFd> make_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) die("socketpair failed");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

Hops::Hops(int count, UniqueFd far) { lead_to(count, std::move(far)); }

Hops::Hops(int count) {
  auto [near, far] = make_pair();
  processes_.push_back(Process::fork([&] {
    near.reset();
    relay(far.get(), far.get());  // both ways are one: an echo
  }));
  far.reset();
  lead_to(count, std::move(near));
}

void Hops::lead_to(int count, UniqueFd far) {
  for (; count > 0; --count) {
    auto [near, inner] = make_pair();
    processes_.push_back(Process::fork([&] {
      near.reset();
      relay(inner.get(), far.get());
    }));
    far = std::move(near);
  }
  near_ = std::move(far);
}

void Hops::ask(std::size_t bytes) const {
  std::string block(bytes, 'x');
  if (::write(fd(), block.data(), bytes) != static_cast<ssize_t>(bytes)) die("a hop ended");
  // Not a read that blocks, which the kernel would also wake when the other side takes what was sent.
  for (std::size_t came = 0; came < bytes;) {
    pollfd ready{fd(), POLLIN, 0};
    ::poll(&ready, 1, -1);
    const ssize_t count = ::read(fd(), block.data(), bytes);
    if (count <= 0) die("a hop ended");
    came += static_cast<std::size_t>(count);
  }
}

}  // namespace sallyport::bench

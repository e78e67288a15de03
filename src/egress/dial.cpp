#include "egress/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "egress/limits.h"
#include "ipc/oneshot.h"

namespace sallyport::egress {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress to_socket_address(const policy::Address& address, std::uint16_t port) {
  SocketAddress made;
  if (address.is_v6) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, address.bytes.data(), 16);
    std::memcpy(&made.storage, &v6, sizeof v6);
    made.length = sizeof v6;
  } else {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.bytes.data(), 4);
    std::memcpy(&made.storage, &v4, sizeof v4);
    made.length = sizeof v4;
  }
  return made;
}

std::vector<policy::Address> alternate(std::vector<policy::Address> from) {
  std::vector<policy::Address> all;
  while (!from.empty()) {
    const bool wants_v6 = all.empty() ? from.front().is_v6 : !all.back().is_v6;
    auto next = std::find_if(from.begin(), from.end(), [&](const auto& each) { return each.is_v6 == wants_v6; });
    if (next == from.end()) next = from.begin();
    all.push_back(*next);
    from.erase(next);
  }
  return all;
}

struct Race {
  ipc::Loop& loop;
  std::vector<policy::Address> addresses;
  std::uint16_t port;
  std::size_t next = 0;
  std::size_t open = 0;
  std::vector<ipc::Watch*> attempts = {};
  ipc::Loop::TimerId stagger = 0;
  ipc::OneShot<Result<Dialled>> winner = {};
};

void start_next(const std::shared_ptr<Race>& race);

Error failure(int error_number) { return Error::from_errno("cannot connect", error_number); }

void lose(const std::shared_ptr<Race>& race, const Error& error) {
  if (race->winner.is_resolved()) return;
  if (race->next < race->addresses.size()) return start_next(race);
  if (race->open == 0) race->winner.resolve(error);
}

Fire attempt(std::shared_ptr<Race> race, policy::Address address) {
  const SocketAddress target = to_socket_address(address, race->port);
  UniqueFd fd{::socket(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!fd) {
    lose(race, failure(errno));
    co_return;
  }
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const int number = fd.get();
  if (::connect(number, target.get(), target.length) != 0 && errno != EINPROGRESS) {
    lose(race, failure(errno));
    co_return;
  }
  auto watch = ipc::Watch::open(race->loop, std::move(fd));
  if (!watch) {
    lose(race, watch.error());
    co_return;
  }
  ipc::Watch* const mine = watch->get();
  ++race->open;
  race->attempts.push_back(mine);
  const bool is_ready = co_await mine->writable();
  std::erase(race->attempts, mine);
  --race->open;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(number, SOL_SOCKET, SO_ERROR, &error, &length);
  if (!is_ready || race->winner.is_resolved()) co_return;
  if (error != 0) {
    lose(race, failure(error));
    co_return;
  }
  race->winner.resolve(Dialled{std::move(*watch), address});
}

void start_next(const std::shared_ptr<Race>& race) {
  race->loop.cancel(race->stagger);
  if (race->winner.is_resolved() || race->next == race->addresses.size()) return;
  const policy::Address address = race->addresses[race->next++];
  if (race->next < race->addresses.size()) {
    race->stagger = race->loop.after(kDialStagger, [race] { start_next(race); });
  }
  attempt(race, address);
}

}  // namespace

Task<Result<Dialled>> dial(ipc::Loop& loop, std::vector<policy::Address> addresses, std::uint16_t port,
                           Millis patience) {
  const std::shared_ptr<Race> race(new Race{loop, alternate(std::move(addresses)), port});
  const auto deadline = loop.after(patience, [race] { race->winner.resolve(Error::make(Code::timeout, "no answer")); });
  start_next(race);
  Result<Dialled> winner = co_await race->winner;
  loop.cancel(deadline);
  loop.cancel(race->stagger);
  for (ipc::Watch* other : race->attempts) other->cancel();
  co_return winner;
}

bool is_own_address(const policy::Address& address) {
  const SocketAddress target = to_socket_address(address, 9);
  const UniqueFd probe{::socket(target.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  SocketAddress own;
  own.length = sizeof own.storage;
  // What cannot be routed cannot be dialled either: the dialling says so.
  if (!probe || ::connect(probe.get(), target.get(), target.length) != 0 ||
      ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0) {
    return false;
  }
  if (address.is_v6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &own.storage, sizeof v6);
    return std::memcmp(&v6.sin6_addr, address.bytes.data(), 16) == 0;
  }
  sockaddr_in v4{};
  std::memcpy(&v4, &own.storage, sizeof v4);
  return std::memcmp(&v4.sin_addr, address.bytes.data(), 4) == 0;
}

}  // namespace sallyport::egress

#include "egress/relay.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

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

constexpr std::size_t kWorthAPipe = 64U << 10;  // less is copied as fast

enum class Moved : std::uint8_t { some, much, end, failed };

// One block, copied. All of it has been sent when this returns.
Task<Moved> copy_block(ipc::Watch& from, ipc::Watch& to, RelayMemory& memory, const Meter& meter) {
  std::vector<char>& block = memory.block();
  const ssize_t count = ::recv(from.fd(), block.data(), block.size(), MSG_DONTWAIT);
  if (count == 0) co_return Moved::end;
  if (count < 0) co_return is_retry(errno) ? Moved::some : Moved::failed;
  const auto size = static_cast<std::size_t>(count);
  if (!meter(size)) co_return Moved::failed;
  const ssize_t sent = send_some(to.fd(), {block.data(), size});
  if (sent < 0) co_return Moved::failed;
  if (static_cast<std::size_t>(sent) < size) {
    // The block belongs to everybody: what has to wait is kept here.
    const std::string rest(block.data() + sent, size - static_cast<std::size_t>(sent));
    if (!co_await send_all(to, rest)) co_return Moved::failed;
  }
  co_return size >= kWorthAPipe ? Moved::much : Moved::some;
}

// As much as a pipe holds, without copying.
Task<Moved> splice_block(ipc::Watch& from, ipc::Watch& to, const RelayMemory::Pipe& pipe, const Meter& meter) {
  constexpr unsigned kFlags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;
  const ssize_t count = ::splice(from.fd(), nullptr, pipe.in.get(), nullptr, kPipeBytes, kFlags);
  if (count == 0) co_return Moved::end;
  if (count < 0) co_return is_retry(errno) ? Moved::some : Moved::failed;
  if (!meter(static_cast<std::size_t>(count))) co_return Moved::failed;
  for (auto left = static_cast<std::size_t>(count); left > 0;) {
    const ssize_t sent = ::splice(pipe.out.get(), nullptr, to.fd(), nullptr, left, kFlags);
    if (sent > 0) {
      left -= static_cast<std::size_t>(sent);
    } else if (sent == 0 || !is_retry(errno)) {
      co_return Moved::failed;
    } else if (errno == EAGAIN && !co_await to.writable()) {
      co_return Moved::failed;
    }
  }
  co_return static_cast<std::size_t>(count) >= kWorthAPipe ? Moved::much : Moved::some;
}

}  // namespace

RelayMemory::RelayMemory() : block_(kScratchBytes) {}

RelayMemory::Pipe RelayMemory::take_pipe() {
  if (!spares_.empty()) {
    Pipe pipe = std::move(spares_.back());
    spares_.pop_back();
    return pipe;
  }
  std::array<int, 2> ends{};
  if (pipes_ >= most_pipes_ || ::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return {};
  ++pipes_;
  ::fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);  // what the kernel does not give is done without
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void RelayMemory::give_pipe(Pipe pipe) {
  if (pipe.in && spares_.size() < kSparePipes) {
    spares_.push_back(std::move(pipe));
  } else {
    drop_pipe(std::move(pipe));
  }
}

void RelayMemory::drop_pipe(Pipe pipe) {
  if (pipe.in) --pipes_;
}

Task<bool> send_all(ipc::Watch& to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send_some(to.fd(), bytes);
    if (sent < 0) co_return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (!bytes.empty() && !co_await to.writable()) co_return false;
  }
  co_return true;
}

Task<bool> relay(ipc::Watch& from, ipc::Watch& to, RelayMemory& memory, const Meter& meter) {
  RelayMemory::Pipe pipe;
  // Waiting each time, though more may be there: the others have their turn in between.
  for (;;) {
    const bool is_readable = co_await from.readable();
    if (!is_readable) break;
    Moved moved = Moved::failed;
    if (pipe.in) {
      moved = co_await splice_block(from, to, pipe, meter);
    } else {
      moved = co_await copy_block(from, to, memory, meter);
    }
    if (moved == Moved::failed) break;
    if (moved == Moved::end) {
      memory.give_pipe(std::move(pipe));
      co_return true;
    }
    if (moved == Moved::much && !pipe.in) pipe = memory.take_pipe();
    if (moved == Moved::some && pipe.in) memory.give_pipe(std::exchange(pipe, {}));
  }
  memory.drop_pipe(std::move(pipe));
  co_return false;
}

}  // namespace sallyport::egress

#include "raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "os/sockets.h"

namespace sallyport::bench {
namespace {

constexpr std::size_t kReadBytes = 64U << 10;

std::pair<UniqueFd, UniqueFd> connect_pair(Family family) {
  if (family == Family::unix_socket) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) die("socketpair failed");
    for (const int end : ends) os::enlarge_buffers(end);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
  auto listener = os::listen_loopback();
  if (!listener) die(listener.error().describe());
  auto client = os::connect_loopback(listener->address);
  if (!client) die(client.error().describe());
  UniqueFd server{::accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  if (!server) die("accept failed");
  os::enlarge_buffers(server.get());
  return {std::move(*client), std::move(server)};
}

void write_all(int fd, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(fd, from, size);
    if (count <= 0) ::_exit(1);
    from += count;
    size -= static_cast<std::size_t>(count);
  }
}

std::size_t read_some(int fd, std::string& buffer, std::size_t at) {
  const ssize_t count = ::read(fd, buffer.data() + at, buffer.size() - at);
  if (count <= 0) ::_exit(0);
  return static_cast<std::size_t>(count);
}

// One read, and one write for all requests that are complete.
class Answerer {
 public:
  Answerer(std::size_t request, std::size_t reply)
      : request_(request),
        reply_(reply),
        in_(std::max(request, kReadBytes), 'q'),
        out_(std::max(reply, kReadBytes), 'r') {}

  void turn(int fd, std::size_t& have) {
    have += read_some(fd, in_, have % request_);
    const std::size_t complete = have / request_;
    have %= request_;
    for (std::size_t left = complete * reply_; left > 0;) {
      const std::size_t size = std::min(left, out_.size());
      write_all(fd, out_.data(), size);
      left -= size;
    }
  }

 private:
  std::size_t request_, reply_;
  std::string in_, out_;
};

void serve(const std::vector<UniqueFd>& connections, std::size_t request, std::size_t reply) {
  Answerer answerer(request, reply);
  std::vector<std::size_t> have(connections.size());
  if (connections.size() == 1) {
    for (;;) answerer.turn(connections[0].get(), have[0]);
  }
  const UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  for (std::size_t i = 0; i < connections.size(); ++i) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, connections[i].get(), &event);
  }
  for (;;) {
    std::array<epoll_event, kWindow> events{};
    const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
      answerer.turn(connections[index].get(), have[index]);
    }
  }
}

}  // namespace

Raw::Raw(Family family, std::size_t connections, std::size_t request, std::size_t reply, int cpu)
    : request_(request), reply_(reply), out_(request * kWindow, 'q'), in_(std::max(reply, kReadBytes), 0) {
  std::vector<UniqueFd> theirs;
  for (std::size_t i = 0; i < connections; ++i) {
    auto [client, server] = connect_pair(family);
    ours_.push_back(std::move(client));
    theirs.push_back(std::move(server));
  }
  server_ = Process::fork([&] {
    ours_.clear();
    pin(0, cpu);
    serve(theirs, request, reply);
  });
}

void Raw::exchange(std::size_t count) {
  write_all(ours_[0].get(), out_.data(), request_ * count);
  for (std::size_t left = reply_ * count; left > 0;) left -= std::min(left, read_some(ours_[0].get(), in_, 0));
}

void Raw::pipeline(int calls) {
  const auto total = static_cast<std::size_t>(calls);
  std::size_t sent = std::min(kWindow, total), bytes = 0;
  write_all(ours_[0].get(), out_.data(), sent * request_);
  for (std::size_t answered = 0; answered < total;) {
    bytes += read_some(ours_[0].get(), in_, 0);
    const std::size_t came = bytes / reply_;
    bytes %= reply_;
    answered += came;
    const std::size_t more = std::min(came, total - sent);
    write_all(ours_[0].get(), out_.data(), more * request_);
    sent += more;
  }
}

void Raw::fan_out(int calls) {
  const UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  for (const UniqueFd& fd : ours_) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd.get()}};
    ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd.get(), &event);
  }
  int sent = 0, answered = 0;
  for (const UniqueFd& fd : ours_) {
    write_all(fd.get(), out_.data(), request_);
    ++sent;
  }
  while (answered < sent) {
    std::array<epoll_event, kWindow> events{};
    const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      // A small answer comes whole.
      read_some(fd, in_, 0);
      ++answered;
      if (sent < calls) {
        write_all(fd, out_.data(), request_);
        ++sent;
      }
    }
  }
}

}  // namespace sallyport::bench

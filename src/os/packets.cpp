#include "os/packets.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace sallyport::os {

Status send_packet(int socket, const Bytes& packet, const std::vector<int>& fds, int flags) {
  if (fds.size() > kMaxPacketFds) return Error::make(Code::payload_too_large, "too many descriptors for a packet");
  iovec part{const_cast<std::uint8_t*>(packet.data()), packet.size()};  // NOLINT(*-const-cast): only read
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPacketFds * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  while (::sendmsg(socket, &header, MSG_NOSIGNAL | flags) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return Error::make(Code::unavailable, "the other side does not read");
    return Error::from_errno("cannot reach the other side", errno);
  }
  return ok();
}

Result<Packet> receive_packet(int socket, int flags) {
  Packet packet;
  packet.bytes.resize(kMaxPacketBytes);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPacketFds * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t count = 0;
  do {
    count = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | flags);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno == EAGAIN) return Error::make(Code::unavailable, "nothing there");
  if (count < 0) return Error::from_errno("cannot read from the other side", errno);
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t fd_count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < fd_count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof(int), sizeof fd);
      packet.fds.emplace_back(fd);
    }
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return Error::make(Code::protocol_error, "oversized packet");
  packet.bytes.resize(static_cast<std::size_t>(count));
  return packet;
}

}  // namespace sallyport::os

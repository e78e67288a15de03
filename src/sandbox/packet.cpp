#include "sandbox/packet.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace sallyport::sandbox {

Status send_packet(int socket, std::string_view bytes, std::span<const int> fds) {
  if (bytes.size() > kMaxPacketBytes || fds.size() > kMaxPacketFds) {
    return Error::make(Code::payload_too_large, "a launcher message is too long");
  }
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return Error::make(Code::unavailable, "the launcher's socket is closed", errno_name(errno));
  return ok();
}

Result<Packet> receive_packet(int socket) {
  Packet packet;
  char buffer[kMaxPacketBytes];  // not zeroed: only what arrives is ever touched
  iovec data{buffer, sizeof(buffer)};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kMaxPacketFds)];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  ssize_t length = 0;
  do {
    length = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0) return Error::from_errno("cannot read from the launcher's socket", errno);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int fds[kMaxPacketFds];
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) packet.fds.emplace_back(fds[i]);
  }
  if (length == 0) return Error::make(Code::unavailable, "the other end of the launcher's socket is gone");
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return Error::make(Code::protocol_error, "a launcher message was cut");
  }
  packet.bytes.assign(buffer, static_cast<std::size_t>(length));
  return packet;
}

}  // namespace sallyport::sandbox

// One packet of bytes and descriptors over a SOCK_SEQPACKET socket.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::sandbox {

constexpr std::size_t kMaxPacketBytes = 160 * 1024;  // fits the default socket buffer
constexpr std::size_t kMaxPacketFds = 16;

struct Packet {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

Status send_packet(int socket, std::string_view bytes, std::span<const int> fds);
// UNAVAILABLE at the end of the socket; the buffer's size bounds what is accepted.
Result<Packet> receive_packet(int socket);

}  // namespace sallyport::sandbox

// Packets of a SOCK_SEQPACKET pair, with descriptors beside them: how a program of ours and its helper talk.
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::os {

// A command line with its environment, or the net rules of a container; below what a socket takes in one go.
inline constexpr std::size_t kMaxPacketBytes = 128U << 10;
inline constexpr std::size_t kMaxPacketFds = 4;

struct Packet {
  Bytes bytes;  // empty: the other side is gone
  std::vector<UniqueFd> fds;
};

// `flags` are those of sendmsg and recvmsg. With MSG_DONTWAIT: UNAVAILABLE when the other side does not read, or when
// nothing is there.
Status send_packet(int socket, const Bytes& packet, const std::vector<int>& fds, int flags);
Result<Packet> receive_packet(int socket, int flags);

}  // namespace sallyport::os

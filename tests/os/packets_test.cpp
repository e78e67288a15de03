#include "os/packets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace sallyport::os {
namespace {

class Packets : public testing::Test {
 protected:
  Packets() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
    ours_ = UniqueFd(ends[0]);
    theirs_ = UniqueFd(ends[1]);
  }
  static Bytes of(std::size_t size) {
    Bytes bytes;
    bytes.resize(size);
    std::memset(bytes.data(), 'x', size);
    return bytes;
  }
  Code refusal() {
    const auto packet = receive_packet(theirs_.get(), MSG_DONTWAIT);
    EXPECT_FALSE(packet);
    return packet ? Code::internal_error : packet.error().code;
  }

  UniqueFd ours_, theirs_;
};

TEST_F(Packets, CarryBytesAndDescriptorsInTheirOrder) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd out{ends[0]}, in{ends[1]};
  ASSERT_TRUE(send_packet(ours_.get(), of(kMaxPacketBytes), {out.get(), in.get()}, 0));
  const auto packet = receive_packet(theirs_.get(), 0);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->bytes.size(), kMaxPacketBytes);
  ASSERT_EQ(packet->fds.size(), 2U);
  EXPECT_EQ(::fcntl(packet->fds[0].get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(::fcntl(packet->fds[1].get(), F_GETFL) & O_ACCMODE, O_WRONLY);
  EXPECT_EQ(::fcntl(packet->fds[0].get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(Packets, AnEmptyOneIsTheEndOfTheOtherSide) {
  ours_.reset();
  const auto packet = receive_packet(theirs_.get(), 0);
  ASSERT_TRUE(packet);
  EXPECT_TRUE(packet->bytes.empty());
}

TEST_F(Packets, AreUnavailableWhenNothingIsThereAndWhenNobodyReads) {
  EXPECT_EQ(refusal(), Code::unavailable);
  Status sent = ok();
  for (int i = 0; i < 10'000 && sent; ++i) sent = send_packet(ours_.get(), of(1000), {}, MSG_DONTWAIT);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::unavailable);
}

TEST_F(Packets, RefuseAnOversizedOneAndKeepNoneOfItsDescriptors) {
  const Bytes packet = of(kMaxPacketBytes + 1);
  ASSERT_TRUE(send_packet(ours_.get(), packet, {ours_.get()}, 0));
  ours_.reset();
  EXPECT_EQ(refusal(), Code::protocol_error);
  // Had a copy of our end been kept, this one would not be at its end.
  const auto end = receive_packet(theirs_.get(), MSG_DONTWAIT);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->bytes.empty());
}

TEST_F(Packets, RefuseMoreDescriptorsThanFit) {
  const std::vector<int> many(kMaxPacketFds + 1, ours_.get());
  const Status sent = send_packet(ours_.get(), of(1), many, 0);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::payload_too_large);
}

}  // namespace
}  // namespace sallyport::os

#include "wire/streams.h"

#include <gtest/gtest.h>

namespace sallyport::wire {
namespace {

using Arrival = Streams::Arrival;

TEST(Streams, TheConnectingSideIsOddAndTheAcceptingSideEven) {
  Streams connecting(Side::connecting), accepting(Side::accepting);
  EXPECT_EQ(*connecting.open(), 1U);
  EXPECT_EQ(*connecting.open(), 3U);
  EXPECT_EQ(*accepting.open(), 2U);
  EXPECT_EQ(*accepting.open(), 4U);
}

TEST(Streams, ANumberIsNeverUsedAgain) {
  Streams streams(Side::connecting);
  const auto first = streams.open();
  ASSERT_TRUE(first);
  streams.close(*first);
  EXPECT_EQ(*streams.open(), 3U);
  Streams receiver(Side::accepting);
  ASSERT_TRUE(receiver.announce(5));
  receiver.close(5);
  EXPECT_FALSE(receiver.announce(5));
  EXPECT_FALSE(receiver.announce(3));
  EXPECT_TRUE(receiver.announce(7));
}

TEST(Streams, AnnouncingOurOwnNumberOrZeroIsRefused) {
  Streams streams(Side::accepting);
  for (const std::uint32_t stream : {0U, 2U, 4U, 0xfffffffeU}) {
    const Status announced = streams.announce(stream);
    ASSERT_FALSE(announced) << stream;
    EXPECT_EQ(announced.error().code, Code::protocol_error);
  }
  Streams connecting(Side::connecting);
  EXPECT_FALSE(connecting.announce(0));
  EXPECT_FALSE(connecting.announce(1));
}

TEST(Streams, NoMoreThanTheLimitAreOpenAtOnceOnEitherSide) {
  Streams streams(Side::accepting);
  for (std::size_t i = 0; i < kMaxOpenStreams; ++i) {
    ASSERT_TRUE(streams.open());
    ASSERT_TRUE(streams.announce(static_cast<std::uint32_t>(2 * i + 1)));
  }
  EXPECT_EQ(streams.open().error().code, Code::rate_limited);
  EXPECT_EQ(streams.announce(1001).error().code, Code::rate_limited);
  EXPECT_EQ(*streams.arrive(1001, 10), Streams::Arrival::ignored) << "what was on its way is no fault";
  streams.close(1);
  EXPECT_FALSE(streams.announce(1001)) << "its number is used";
  EXPECT_TRUE(streams.announce(1003));
  streams.close(2);
  EXPECT_TRUE(streams.open());
}

TEST(Streams, AChunkForAStreamNobodyNamedIsNotFound) {
  Streams streams(Side::accepting);
  EXPECT_EQ(streams.arrive(1, 10).error().code, Code::not_found);
  EXPECT_EQ(streams.arrive(2, 10).error().code, Code::not_found);
  ASSERT_TRUE(streams.announce(1));
  EXPECT_EQ(streams.arrive(3, 10).error().code, Code::not_found);
  EXPECT_EQ(*streams.arrive(1, 10), Arrival::data);
}

TEST(Streams, AChunkForAStreamThatIsOverIsIgnored) {
  Streams streams(Side::accepting);
  ASSERT_TRUE(streams.announce(1));
  EXPECT_EQ(*streams.arrive(1, 0), Arrival::end);
  EXPECT_EQ(*streams.arrive(1, 10), Arrival::ignored);
  EXPECT_EQ(*streams.arrive(1, 0), Arrival::ignored);
  EXPECT_FALSE(streams.is_receiving(1));
}

TEST(Streams, MoreBytesThanWereGrantedAreAProtocolError) {
  Streams streams(Side::accepting, {.credit = 100, .grant_after = 50});
  ASSERT_TRUE(streams.announce(1));
  EXPECT_EQ(*streams.arrive(1, 60), Arrival::data);
  EXPECT_EQ(*streams.arrive(1, 40), Arrival::data);
  EXPECT_EQ(streams.arrive(1, 1).error().code, Code::protocol_error);
  EXPECT_EQ(*streams.arrive(1, 0), Arrival::end) << "an end costs no credit";
}

TEST(Streams, CreditIsRenewedOnceHalfOfItIsUsedUp) {
  Streams streams(Side::accepting, {.credit = 100, .grant_after = 50});
  ASSERT_TRUE(streams.announce(1));
  ASSERT_TRUE(streams.arrive(1, 100));
  EXPECT_EQ(streams.consumed(1, 49), 0U);
  EXPECT_EQ(streams.consumed(1, 1), 50U);
  EXPECT_EQ(*streams.arrive(1, 50), Arrival::data);
  EXPECT_FALSE(streams.arrive(1, 1));
  EXPECT_EQ(streams.consumed(3, 50), 0U) << "a stream that is not there is granted nothing";
}

TEST(Streams, SendingUsesCreditAndCreditRestoresIt) {
  Streams streams(Side::connecting, {.credit = 100, .grant_after = 50});
  const std::uint32_t stream = *streams.open();
  EXPECT_EQ(streams.sendable(stream), 100U);
  streams.sent(stream, 100);
  EXPECT_EQ(streams.sendable(stream), 0U);
  ASSERT_TRUE(streams.credit(stream, 30));
  EXPECT_EQ(streams.sendable(stream), 30U);
  EXPECT_EQ(streams.sendable(99), 0U);
}

TEST(Streams, CreditThatMakesNoSenseIsAProtocolError) {
  Streams streams(Side::connecting);
  const std::uint32_t stream = *streams.open();
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{INT32_MAX}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(streams.credit(stream, bytes).error().code, Code::protocol_error) << bytes;
  }
  for (const std::uint32_t unknown : {0U, 2U, 3U, 0xffffffffU}) {
    EXPECT_EQ(streams.credit(unknown, 1).error().code, Code::protocol_error) << unknown;
  }
  EXPECT_EQ(streams.sendable(stream), kInitialCredit);
}

TEST(Streams, CreditCannotBeSavedUpBeyondItsRange) {
  Streams streams(Side::connecting);
  const std::uint32_t stream = *streams.open();
  ASSERT_TRUE(streams.credit(stream, INT32_MAX - std::int64_t{kInitialCredit}));
  EXPECT_FALSE(streams.credit(stream, 1));
  EXPECT_EQ(streams.sendable(stream), static_cast<std::uint32_t>(INT32_MAX));
}

TEST(Streams, CreditForAStreamThatIsOverIsIgnored) {
  Streams streams(Side::connecting);
  const std::uint32_t stream = *streams.open();
  streams.close(stream);
  EXPECT_TRUE(streams.credit(stream, 1000));
  EXPECT_EQ(streams.sendable(stream), 0U);
  EXPECT_FALSE(streams.is_sending(stream));
}

}  // namespace
}  // namespace sallyport::wire

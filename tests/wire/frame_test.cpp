#include "wire/frame.h"

#include <gtest/gtest.h>

#include <random>

#include "support/wire.h"

namespace sallyport::wire {
namespace {

using sallyport::testing::bodies_of;
using sallyport::testing::chunk_frame;
using sallyport::testing::frame_of;
using sallyport::testing::header_of;
using sallyport::testing::text_of;

TEST(FrameReader, GivesOutFramesThatComeOneByteAtATime) {
  const std::string stream = frame_of("{}") + frame_of(std::string(300, 'x')) + frame_of("z");
  FrameReader reader;
  std::vector<std::string> bodies;
  for (const char byte : stream) {
    reader.feed(as_bytes({&byte, 1}));
    auto frame = reader.next();
    ASSERT_TRUE(frame);
    if (*frame) bodies.emplace_back(as_text(**frame));
  }
  EXPECT_EQ(bodies, (std::vector<std::string>{"{}", std::string(300, 'x'), "z"}));
  EXPECT_TRUE(reader.finish());
}

TEST(FrameReader, GivesOutTheSameFramesHoweverTheBytesAreSplit) {
  std::mt19937 random(7);
  std::string stream;
  std::vector<std::string> sent;
  for (int i = 0; i < 60; ++i) {
    sent.emplace_back(std::size_t{1} + random() % (i % 10 == 0 ? 200'000 : 900), static_cast<char>('a' + i % 26));
    stream += frame_of(sent.back());
  }
  for (int round = 0; round < 20; ++round) {
    FrameReader reader;
    std::vector<std::string> got;
    for (std::string_view rest = stream; !rest.empty();) {
      const std::size_t size = std::min<std::size_t>(rest.size(), 1 + random() % (round < 10 ? 50'000 : 500'000));
      reader.feed(as_bytes(rest.substr(0, size)));
      rest.remove_prefix(size);
      for (;;) {
        auto frame = reader.next();
        ASSERT_TRUE(frame);
        if (!*frame) break;
        got.emplace_back(as_text(**frame));
      }
    }
    ASSERT_EQ(got, sent);
    EXPECT_TRUE(reader.is_between_frames());
  }
}

TEST(FrameReader, TakesTenThousandFramesInOneFeed) {
  std::string stream;
  for (int i = 0; i < 10'000; ++i) stream += frame_of("{\"n\":" + std::to_string(i) + "}");
  const auto bodies = bodies_of(stream);
  ASSERT_EQ(bodies.size(), 10'000U);
  EXPECT_EQ(bodies.back(), R"({"n":9999})");
}

TEST(FrameReader, AcceptsAFrameOfExactlyTheCap) {
  const auto bodies = bodies_of(frame_of(std::string(kMaxFrameBytes, 'y')));
  ASSERT_EQ(bodies.size(), 1U);
  EXPECT_EQ(bodies[0].size(), kMaxFrameBytes);
}

TEST(FrameReader, RefusesALengthOfZero) {
  FrameReader reader;
  reader.feed(as_bytes(header_of(0)));
  const auto frame = reader.next();
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().code, Code::protocol_error);
}

TEST(FrameReader, RefusesALengthAboveTheCapBeforeBuffering) {
  for (const std::uint32_t length : {std::uint32_t{kMaxFrameBytes} + 1, 0x7fffffffU, 0xffffffffU}) {
    FrameReader reader;
    reader.feed(as_bytes(header_of(length)));
    const auto frame = reader.next();
    ASSERT_FALSE(frame) << length;
    EXPECT_EQ(frame.error().code, Code::payload_too_large);
    EXPECT_LE(reader.writable().size(), 256U << 10);
  }
}

TEST(FrameReader, DoesNotAllocateForALengthAboveTheCapThoughManyBytesFollowIt) {
  FrameReader reader;
  reader.feed(as_bytes(header_of(0xffffffffU) + std::string(300'000, 'x')));
  EXPECT_LE(reader.buffered() + reader.writable().size(), 2U << 20);
  EXPECT_FALSE(reader.next());
}

TEST(FrameReader, MemoryGrowsWithTheBytesThatCameNotWithTheLengthClaimed) {
  FrameReader reader;
  reader.feed(as_bytes(header_of(kMaxFrameBytes) + "x"));
  ASSERT_TRUE(reader.next());
  EXPECT_LE(reader.writable().size(), 128U << 10);
  // Once a good part is here, the rest of that one frame may be asked for, and no more.
  reader.feed(as_bytes(std::string(100'000, 'x')));
  ASSERT_TRUE(reader.next());
  EXPECT_LE(reader.buffered() + reader.writable().size(), 2 * kMaxFrameBytes + (128U << 10));
}

TEST(FrameReader, StaysRefusedAfterAProtocolError) {
  FrameReader reader;
  reader.feed(as_bytes(header_of(0) + frame_of("{}")));
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.next());
}

TEST(FrameReader, KeepsAHalfFrameThroughTrim) {
  const std::string frame = frame_of("hello world");
  FrameReader reader;
  reader.feed(as_bytes(std::string_view(frame).substr(0, 7)));
  ASSERT_TRUE(reader.next());
  reader.trim();
  EXPECT_EQ(reader.buffered(), 7U);
  reader.feed(as_bytes(std::string_view(frame).substr(7)));
  auto body = reader.next();
  ASSERT_TRUE(body && *body);
  EXPECT_EQ(as_text(**body), "hello world");
}

TEST(FrameReader, LendsItsMemoryOnlyBetweenFrames) {
  FrameReader reader;
  reader.feed(as_bytes(frame_of("{}")));
  EXPECT_EQ(reader.surrender().capacity(), 0U);
  ASSERT_TRUE(reader.next());
  Bytes memory = reader.surrender();
  EXPECT_GT(memory.capacity(), 0U);
  FrameReader other;
  other.adopt(std::move(memory));
  other.feed(as_bytes(frame_of("again")));
  auto body = other.next();
  ASSERT_TRUE(body && *body);
  EXPECT_EQ(as_text(**body), "again");
}

TEST(FrameBuilder, RefusesAnEmptyAndAnOversizeBodyAndLeavesTheBufferAsItWas) {
  Bytes out;
  out.append("kept");
  EXPECT_FALSE(append_frame(out, {}));
  EXPECT_FALSE(append_frame(out, as_bytes(std::string(kMaxFrameBytes + 1, 'x'))));
  EXPECT_EQ(text_of(out), "kept");
  EXPECT_TRUE(append_frame(out, as_bytes("b")));
  EXPECT_EQ(text_of(out), "kept" + frame_of("b"));
}

TEST(FrameKind, GoesByTheFirstByteAlone) {
  EXPECT_EQ(frame_kind(as_bytes("{")), FrameKind::message);
  EXPECT_EQ(frame_kind(as_bytes("\x01")), FrameKind::chunk);
  EXPECT_EQ(frame_kind(as_bytes("\x02")), FrameKind::handshake);
  EXPECT_EQ(frame_kind(as_bytes("[1]")), FrameKind::unknown);
  EXPECT_EQ(frame_kind(as_bytes(" {}")), FrameKind::unknown);
  EXPECT_EQ(frame_kind({}), FrameKind::unknown);
}

TEST(Chunk, RoundTripsItsStreamAndItsBytes) {
  const auto bodies = bodies_of(chunk_frame(0x01020304, "data") + chunk_frame(7, ""));
  ASSERT_EQ(bodies.size(), 2U);
  const auto data = parse_chunk(as_bytes(bodies[0])), end = parse_chunk(as_bytes(bodies[1]));
  ASSERT_TRUE(data && end);
  EXPECT_EQ(data->stream, 0x01020304U);
  EXPECT_EQ(as_text(data->data), "data");
  EXPECT_EQ(end->stream, 7U);
  EXPECT_TRUE(end->data.empty());
}

TEST(Chunk, WithoutAWholeStreamNumberOrForStreamZeroIsRefused) {
  for (const std::string_view body : {std::string_view("\x01", 1), std::string_view("\x01\0\0\0", 4),
                                      std::string_view("\x01\0\0\0\0", 5), std::string_view("\x01\0\0\0\0abc", 8)}) {
    const auto chunk = parse_chunk(as_bytes(body));
    ASSERT_FALSE(chunk);
    EXPECT_EQ(chunk.error().code, Code::protocol_error);
  }
}

TEST(Chunk, LargerThanAFrameIsRefusedLocally) {
  Bytes out;
  EXPECT_TRUE(append_chunk(out, 1, as_bytes(std::string(kMaxChunkBytes, 'c'))));
  EXPECT_EQ(out.size(), kHeaderBytes + kMaxFrameBytes);
  out.clear();
  const Status refused = append_chunk(out, 1, as_bytes(std::string(kMaxChunkBytes + 1, 'c')));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::payload_too_large);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace sallyport::wire

// Frames and messages for tests: built and taken apart with the code under test's own API.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "wire/wire.h"

namespace sallyport::testing {

inline std::string text_of(const Bytes& bytes) { return std::string(as_text(bytes.view())); }

// A whole frame around any body, well formed or not.
inline std::string frame_of(std::string_view body) {
  std::string frame(4, '\0');
  wire::store_be32(reinterpret_cast<std::uint8_t*>(frame.data()), static_cast<std::uint32_t>(body.size()));
  return frame += body;
}

// A header alone, with whatever length it claims.
inline std::string header_of(std::uint32_t length) {
  std::string header(4, '\0');
  wire::store_be32(reinterpret_cast<std::uint8_t*>(header.data()), length);
  return header;
}

inline std::string request_frame(std::string_view id, std::string_view method, std::string_view params = {}) {
  Bytes out;
  EXPECT_TRUE(wire::append_request(out, {.id = id, .method = method, .deadline_ms = {}, .token = {}}, params));
  return text_of(out);
}

inline std::string chunk_frame(std::uint32_t stream, std::string_view data) {
  Bytes out;
  EXPECT_TRUE(wire::append_chunk(out, stream, as_bytes(data)));
  return text_of(out);
}

// The message owns what it points to.
inline wire::MessageResult decode(std::string_view body, wire::Keep keep = wire::Keep::nothing) {
  static thread_local wire::Decoder decoder;
  return wire::decode_message(decoder, as_bytes(body), keep);
}

// The code that a body is refused with; fails the test if it is accepted.
inline std::string refusal(std::string_view body) {
  const auto message = decode(body);
  if (message) return "accepted";
  return std::string(to_string(message.malformed().error.code));
}

// Every complete frame's body.
inline std::vector<std::string> bodies_of(std::string_view bytes) {
  wire::FrameReader reader;
  reader.feed(as_bytes(bytes));
  std::vector<std::string> bodies;
  for (;;) {
    auto frame = reader.next();
    if (!frame || !*frame) break;
    bodies.emplace_back(as_text(**frame));
  }
  return bodies;
}

}  // namespace sallyport::testing

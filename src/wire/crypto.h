// The few primitives the wire needs, from OpenSSL.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace sallyport::wire {

using Digest = std::array<std::uint8_t, 32>;

// Piece by piece.
class Sha256 {
 public:
  Sha256();
  void update(ByteView data);
  Digest finish();  // once, at the end

 private:
  alignas(8) std::array<std::uint8_t, 112> state_;  // the library's, which only the source file knows
};

// RFC 2104, piece by piece. Neither allocates.
class HmacSha256 {
 public:
  explicit HmacSha256(ByteView key);
  ~HmacSha256();
  HmacSha256(const HmacSha256&) = delete;
  HmacSha256& operator=(const HmacSha256&) = delete;
  void update(ByteView data) { inner_.update(data); }
  Digest finish();  // once, at the end

 private:
  std::array<std::uint8_t, 64> pad_{};  // a block of the key
  Sha256 inner_;
};

Digest sha256(ByteView data);
Digest hmac_sha256(ByteView key, ByteView data);
// Takes the same time wherever the difference is. Different lengths are unequal.
bool constant_time_equal(ByteView a, ByteView b);

}  // namespace sallyport::wire

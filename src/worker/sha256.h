// SHA-256 as lower-case hex, at once or piece by piece.
#pragma once

#include <string>
#include <string_view>

#include "wire/crypto.h"

namespace sallyport::worker {

class Sha256 {
 public:
  void update(std::string_view bytes) { hash_.update(as_bytes(bytes)); }
  std::string hex() { return to_hex(hash_.finish()); }  // once, at the end

 private:
  wire::Sha256 hash_;
};

inline std::string sha256_hex(std::string_view bytes) { return to_hex(wire::sha256(as_bytes(bytes))); }

}  // namespace sallyport::worker

// Ed25519, for the checkpoints of the audit chain.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/base.h"

namespace sallyport::ledger {

using PublicKey = std::array<std::uint8_t, 32>;
using Signature = std::array<std::uint8_t, 64>;

class SigningKey {
 public:
  static SigningKey generate();
  // Reads a key written by save(). NOT_FOUND if there is none; anything but a private file is refused.
  static Result<SigningKey> load(const std::string& path);
  Status save(const std::string& path) const;  // mode 0600, all or nothing

  const PublicKey& public_key() const { return public_; }
  Signature sign(ByteView message) const;

 private:
  using Seed = std::array<std::uint8_t, 32>;
  explicit SigningKey(const Seed& seed);

  Seed seed_;
  PublicKey public_{};
};

bool is_signed_by(const PublicKey& key, ByteView message, const Signature& signature);

}  // namespace sallyport::ledger

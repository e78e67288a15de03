// A signed statement: "record `seq` of this ledger has this hash". Kept inside the ledger it stops
// whoever lacks the key from rewriting what is older; kept elsewhere it stops everybody.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/base.h"
#include "ledger/record.h"
#include "ledger/signing.h"

namespace sallyport::ledger {

struct Checkpoint {
  std::uint64_t seq = 0;
  std::int64_t time_ms = 0;
  Digest hash{};
  PublicKey key{};
  Signature signature{};

  bool is_genuine() const;  // signed by `key`; says nothing about whose key that is
};

Checkpoint sign_checkpoint(const SigningKey& key, std::uint64_t seq, const Digest& hash, std::int64_t time_ms);

// {"sallyport_checkpoint":1,"seq":..,"time_ms":..,"hash":..,"key":..,"signature":..}
std::string to_json(const Checkpoint& checkpoint);
// INVALID_PARAMS if it is none, or if its own signature does not fit.
Result<Checkpoint> parse_checkpoint(std::string_view json);
Result<Checkpoint> read_checkpoint(wire::Value object);

}  // namespace sallyport::ledger

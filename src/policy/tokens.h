// Capability tokens: a signed note that one process of one principal may call certain methods for a
// while. Bound to both, so that a stolen token is worth nothing elsewhere; signed with a key of this
// process, so that none outlives it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "permit/permit.h"
#include "wire/wire.h"

namespace sallyport::policy {

// `name` against "fs.read", "fs.*" or "*".
bool matches(std::string_view pattern, std::string_view name);
bool matches_any(const std::vector<std::string>& patterns, std::string_view name);

class Tokens {
 public:
  explicit Tokens(const Clock& clock);

  std::string create(const Principal& principal, std::uint64_t process, const std::vector<std::string>& methods,
                     Millis ttl) const;
  // UNAUTHENTICATED unless the token was made here, for this principal and process, covers the method,
  // and has not expired.
  Status check(std::string_view token, const Principal& principal, std::uint64_t process,
               std::string_view method) const;

 private:
  wire::Digest sign(std::string_view claims) const;

  const Clock& clock_;
  wire::Token key_;
};

}  // namespace sallyport::policy

// The one place that decides. Pure: the same question gets the same answer, and asking changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "permit/permit.h"
#include "policy/tokens.h"

namespace sallyport::policy {

// What the host itself may do: [host] of the configuration.
struct HostPolicy {
  std::vector<std::string> methods = {"*"};
  std::vector<std::string> token_methods;  // of these, those that need a capability token as well
};

struct Question {
  const Principal& principal;
  std::uint64_t process;  // the asking process, see os::Peer
  std::string_view method;
  std::string_view token;
};

// Default deny: the host may do what its policy names, everybody else nothing.
class Engine {
 public:
  Engine(HostPolicy host, const Tokens& tokens) : host_(std::move(host)), tokens_(tokens) {}

  // A Permit, or POLICY_DENIED, or UNAUTHENTICATED where a token is needed.
  Result<Permit> decide(const Question& question) const;

  void replace(HostPolicy host) { host_ = std::move(host); }

 private:
  HostPolicy host_;
  const Tokens& tokens_;
};

}  // namespace sallyport::policy

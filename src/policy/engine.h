// The one place that decides. Pure: the same question gets the same answer, and asking changes nothing.
#pragma once

#include <cstdint>
#include <map>
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

// What a container may ask for through its door: `methods` and `token_methods` of its profile.
struct ContainerPolicy {
  std::vector<std::string> methods, token_methods;
};

struct Question {
  const Principal& principal;
  std::uint64_t process;  // the asking process, see os::Peer
  std::string_view method;
  std::string_view token;
};

// Default deny: the host may do what its policy names, a container what its profile names, and nobody
// else anything.
class Engine {
 public:
  Engine(HostPolicy host, const Tokens& tokens) : host_(std::move(host)), tokens_(tokens) {}

  // A Permit, or POLICY_DENIED, or UNAUTHENTICATED where a token is needed.
  Result<Permit> decide(const Question& question) const;

  void replace(HostPolicy host) { host_ = std::move(host); }
  void set_container(const std::string& id, ContainerPolicy policy) { containers_[id] = std::move(policy); }
  void remove_container(const std::string& id) { containers_.erase(id); }

 private:
  HostPolicy host_;
  std::map<std::string, ContainerPolicy, std::less<>> containers_;
  const Tokens& tokens_;
};

}  // namespace sallyport::policy

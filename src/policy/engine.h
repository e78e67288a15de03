// The one place that decides, for methods over a door and for signals in a mailbox alike. Pure: the same
// question gets the same answer, and asking changes nothing.
//
// Default deny: the host may do what its policy names, a container what its profile and the rules name, and
// nobody else anything. Of the rules that match, the strictest decides (deny > human > deputy > allow), and
// what any of them demands is demanded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/base.h"
#include "permit/permit.h"
#include "policy/profile.h"
#include "policy/rule.h"
#include "policy/tokens.h"
#include "wire/json.h"

namespace sallyport::policy {

// What the host itself may do: [host] of the configuration.
struct HostPolicy {
  std::vector<std::string> methods = {"*"};
  std::vector<std::string> token_methods;  // of these, those that need a capability token as well
};

// What a container may ask for: what its profile says, perhaps narrowed for this container.
struct ContainerPolicy {
  std::vector<std::string> methods, token_methods;
  std::vector<std::string> signals = {};
  std::string profile = {};
  std::vector<Rule> rules = {};  // its reviews, rates and rules
  // Under whose name its rates are counted: a run of a task counts to whoever had it scheduled. Empty: its own.
  std::string counts_as = {};
};
ContainerPolicy container_policy(const Profile& profile);

struct Question {
  const Principal& principal;
  std::uint64_t process;    // the asking process, see os::Peer
  std::string_view method;  // or a signal's name
  std::string_view token;
  wire::Value params = {};  // or a signal's payload
};

struct Decision {
  bool is_denied = true;
  bool needs_deputy = false;
  bool needs_human = false;
  std::string rule;  // which decides; empty: none matched
  std::string why;   // for the log and the host; callers are told nothing of the rules
  // Every one of them must let it pass. The asker counts it: the engine changes nothing.
  std::vector<RateLimit> rates;
  std::string counts_as;  // whose they are
  std::vector<std::string> also_matched;
  bool operator==(const Decision& other) const {
    return is_denied == other.is_denied && needs_deputy == other.needs_deputy && needs_human == other.needs_human &&
           rule == other.rule;
  }
};

// What reviewers said.
struct Granted {
  bool deputy = false;
  bool human = false;
};

class Engine {
 public:
  Engine(HostPolicy host, const Tokens& tokens);

  Decision consider(const Question& question) const;
  // POLICY_DENIED unless the policy still says what `decision` says and all that it needs was granted;
  // UNAUTHENTICATED where a token is needed.
  Result<Permit> permit(const Question& question, const Decision& decision, const Granted& granted) const;
  // The short way for what is allowed without review and rate; nullopt for everything else, whatever it is.
  std::optional<Permit> permit_at_once(const Question& question) const;

  // UNAUTHENTICATED where a token is needed and this question has none that counts.
  Status check_token(const Question& question) const;

  // What is in force from now on. Containers keep theirs until they are set again. `commands`: what runs once it is
  // approved, in any spelling; it decides nothing here, and is a part of the hash.
  void replace(HostPolicy host, std::vector<Rule> rules = {}, const Profiles& profiles = {},
               std::string_view commands = {});
  void set_container(const std::string& id, ContainerPolicy policy);
  void remove_container(const std::string& id) { containers_.erase(id); }

  // Of everything that decides: the host's policy, the rules, the profiles; and of the commands that an approval is
  // about.
  std::string policy_hash() const { return hash_; }
  const std::vector<Rule>& rules() const { return rules_; }

 private:
  // Rules that concern one principal, found by name.
  struct Table {
    struct Hash {
      using is_transparent = void;
      std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };
    using Index = std::unordered_map<std::string, std::vector<std::uint32_t>, Hash, std::equal_to<>>;

    std::vector<Rule> rules;
    Index exact;
    Index groups;  // by what stands before ".*"
    std::vector<std::uint32_t> all;
    std::vector<std::string> token_methods;
    ContainerPolicy given;  // to compile it again when the rules change
    bool is_open = false;   // everything is allowed, and nothing of it asks for more than that

    void add(Rule rule);
    void finish();  // after the last rule
    template <typename Visit>
    void visit(const Question& question, Visit&& visit) const;
  };
  // All that the matching rules say, without a copy of anything.
  struct Outcome {
    bool is_permitted = false, is_denied = false, needs_deputy = false, needs_human = false;
    const Rule* strictest = nullptr;
    std::vector<const RateLimit*> rates;
  };

  const Table* table_of(const Principal& principal) const;
  template <typename OnMatch>
  static Outcome weigh(const Table& table, const Question& question, OnMatch&& on_match);
  Status check_token(const Table& table, const Question& question) const;
  Table compile(const std::string& id, ContainerPolicy policy) const;
  void compile_host();

  HostPolicy host_policy_;
  std::vector<Rule> rules_;
  Table host_;
  std::map<std::string, Table, std::less<>> containers_;
  std::string hash_;
  const Tokens& tokens_;
};

}  // namespace sallyport::policy

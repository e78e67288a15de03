// A rule: which names and payloads it speaks of, and what it demands of them. See docs/policy.md.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/base.h"
#include "permit/permit.h"
#include "wire/json.h"

namespace sallyport::policy {

// `text` against a pattern in which * stands for any bytes and ? for one. Takes time linear in practice and
// never more than the product of both lengths.
bool glob_matches(std::string_view pattern, std::string_view text);

// A name with a dot is a method's, one without is a signal's.
inline bool is_signal_name(std::string_view name) { return name.find('.') == std::string_view::npos; }

// At most `count` per `period` and principal, counted under the name of its rule.
struct RateLimit {
  std::string rule;
  std::int64_t count = 1;
  Millis period{1000};

  bool operator==(const RateLimit&) const = default;
};
// "60/min", "5/h": a count per s, min, h or d.
Result<RateLimit> parse_rate(std::string_view text);

// One test of one field of a payload. A field that is absent or of another type fails every test.
struct FieldTest {
  using Literal = std::variant<bool, std::int64_t, double, std::string>;
  enum class Kind : std::uint8_t { one_of, prefix, glob, max_length, range };

  std::vector<std::string> path;  // keys; a number is an array's index
  Kind kind = Kind::one_of;
  std::vector<Literal> literals;  // one_of
  std::string text;               // prefix, glob
  std::uint64_t length = 0;       // max_length: a string's bytes or an array's items
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();

  bool holds(wire::Value payload) const;
  bool operator==(const FieldTest&) const = default;
};

struct Rule {
  std::string name;                // "rule.night-deploys", "profile.default.methods"
  std::string source;              // "FILE:LINE", for people
  std::vector<std::string> match;  // names, "group.*" or "*"
  // Whom it concerns: nothing named: every container. The host only where it is named.
  std::vector<std::string> principals;  // "host", "container/ID"
  std::vector<std::string> profiles;
  bool allows = false, needs_deputy = false, needs_human = false, denies = false;
  // Whether a request that it matches may go on at all once its demands are met. A `review` or a rate only
  // demands; something else must allow.
  bool permits = false;
  // What "*" stands for.
  enum class Names : std::uint8_t { all, methods, signals } names = Names::all;
  std::vector<FieldTest> when;    // all must hold
  std::vector<FieldTest> unless;  // if there are any: not all may hold
  std::optional<RateLimit> rate;
  std::string text;  // all of it in one spelling, for the policy's hash

  bool operator==(const Rule&) const = default;
  bool matches_payload(wire::Value payload) const;
  bool matches(std::string_view asked, wire::Value payload) const;
  bool concerns(const Principal& principal, std::string_view profile) const;
  // deny 4, human 3, deputy 2, allow 1, a rate alone 0.
  int strictness() const { return denies ? 4 : needs_human ? 3 : needs_deputy ? 2 : allows ? 1 : 0; }
};

// "[[rule]]" tables of a file that may hold other tables too; those are left to others.
Result<std::vector<Rule>> parse_rules(std::string_view text, const std::string& path);

// The sentence that is wrong with a pattern of names; nullopt if nothing is.
std::optional<std::string> name_pattern_problem(std::string_view pattern, Rule::Names names);

}  // namespace sallyport::policy

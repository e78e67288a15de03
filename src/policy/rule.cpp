#include "policy/rule.h"

#include <algorithm>
#include <charconv>

#include "policy/tokens.h"

namespace sallyport::policy {
namespace {

wire::Value field_at(wire::Value value, const std::vector<std::string>& path) {
  for (const std::string& key : path) {
    if (!value.is_array()) {
      value = value.get(key);
      continue;
    }
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (error != std::errc() || end != key.data() + key.size()) return {};
    wire::Value found;
    for (const wire::Value item : value.items()) {
      if (index-- == 0) {
        found = item;
        break;
      }
    }
    value = found;
  }
  return value;
}

bool equals(const FieldTest::Literal& literal, wire::Value value) {
  if (const auto* flag = std::get_if<bool>(&literal)) return value.as_bool() == *flag;
  if (const auto* text = std::get_if<std::string>(&literal)) return value.as_string() == *text;
  if (const auto* number = std::get_if<std::int64_t>(&literal)) {
    if (const auto integer = value.as_int()) return *integer == *number;
    return value.as_double() == static_cast<double>(*number);
  }
  return value.as_double() == std::get<double>(literal);
}

bool all_hold(const std::vector<FieldTest>& tests, wire::Value payload) {
  return std::all_of(tests.begin(), tests.end(), [&](const FieldTest& test) { return test.holds(payload); });
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || (pattern[p] != '*' && pattern[p] == text[t]))) {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Result<RateLimit> parse_rate(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::int64_t millis;
  };
  constexpr Unit kUnits[] = {{"s", 1000}, {"min", 60'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
  RateLimit rate;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate.count);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error == std::errc() && rate.count >= 1 && rate.count <= 1'000'000 && rest.starts_with('/')) {
    for (const Unit& unit : kUnits) {
      if (rest.substr(1) != unit.name) continue;
      rate.period = Millis(unit.millis);
      return rate;
    }
  }
  return Error::make(Code::invalid_params, "is no rate such as 60/min or 5/h: " + std::string(text));
}

bool FieldTest::holds(wire::Value payload) const {
  const wire::Value value = field_at(payload, path);
  if (!value) return false;
  switch (kind) {
    case Kind::one_of:
      return std::any_of(literals.begin(), literals.end(), [&](const Literal& one) { return equals(one, value); });
    case Kind::prefix:
      return value.is_string() && value.as_string()->starts_with(text);
    case Kind::glob:
      return value.is_string() && glob_matches(text, *value.as_string());
    case Kind::max_length:
      if (value.is_array()) return value.size() <= length;
      return value.is_string() && value.as_string()->size() <= length;
    case Kind::range:
      if (const auto number = value.as_double()) return *number >= least && *number <= most;
      return false;
  }
  return false;
}

bool Rule::matches_payload(wire::Value payload) const {
  return all_hold(when, payload) && (unless.empty() || !all_hold(unless, payload));
}

bool Rule::matches(std::string_view asked, wire::Value payload) const {
  if (names != Names::all && (names == Names::signals) != is_signal_name(asked)) return false;
  return matches_any(match, asked) && matches_payload(payload);
}

bool Rule::concerns(const Principal& principal, std::string_view profile) const {
  if (principals.empty() && profiles.empty()) return !principal.is_host();
  if (std::find(principals.begin(), principals.end(), principal.to_string()) != principals.end()) return true;
  return !principal.is_host() && std::find(profiles.begin(), profiles.end(), profile) != profiles.end();
}

std::optional<std::string> name_pattern_problem(std::string_view pattern, Rule::Names names) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  if (pattern == "*") return std::nullopt;
  const std::string word = "'" + std::string(pattern) + "'";
  const std::string_view name = pattern.ends_with(".*") ? pattern.substr(0, pattern.size() - 2) : pattern;
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_plain)) {
    return word + ", which is neither a name nor \"group.*\" nor \"*\"";
  }
  if (names == Rule::Names::methods && is_signal_name(pattern))
    return word + ", which is no method's name: it has no dot";
  if (names == Rule::Names::signals && !is_signal_name(pattern))
    return word + ", which is no signal's name: it has a dot";
  return std::nullopt;
}

}  // namespace sallyport::policy

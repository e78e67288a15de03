#include "policy/engine.h"

#include <algorithm>

#include "wire/crypto.h"

namespace sallyport::policy {
namespace {

Rule allow_rule(std::string name, std::string source, std::vector<std::string> match, Rule::Names names) {
  Rule rule;
  rule.name = std::move(name);
  rule.source = std::move(source);
  rule.match = std::move(match);
  rule.allows = rule.permits = true;
  rule.names = names;
  return rule;
}

std::string because(const Decision& decision, const Rule* strictest) {
  if (strictest == nullptr) return "no rule allows it (default deny)";
  const std::string_view end = strictest->denies    ? " denies it"
                               : decision.is_denied ? " matches, but nothing allows it (default deny)"
                               : decision.needs_deputy && decision.needs_human
                                   ? " matches; it needs the deputy and a human"
                               : decision.needs_deputy ? " matches; it needs the deputy"
                               : decision.needs_human  ? " matches; it needs a human"
                                                       : " allows it";
  std::string why;
  why.reserve(strictest->name.size() + strictest->source.size() + end.size() + 5);
  return (((why += '\'') += strictest->name) += "' (").append(strictest->source).append(")").append(end);
}

Error denied(const Question& question, const std::string& why) {
  std::string message =
      is_signal_name(question.method) ? "policy does not allow this signal" : "policy does not allow this method";
  // Which rule it was is the host's business alone.
  if (question.principal.is_host()) message += ": " + why;
  return Error::make(Code::policy_denied, std::move(message), why + " for " + question.principal.to_string());
}

}  // namespace

ContainerPolicy container_policy(const Profile& profile) {
  return {.methods = profile.methods,
          .token_methods = profile.token_methods,
          .signals = profile.signals,
          .profile = profile.name,
          .rules = profile.rules};
}

// ---- compiling ----

Engine::Engine(HostPolicy host, const Tokens& tokens) : tokens_(tokens) { replace(std::move(host)); }

void Engine::Table::add(Rule rule) {
  const auto index = static_cast<std::uint32_t>(rules.size());
  for (const std::string& pattern : rule.match) {
    auto& place = pattern == "*"            ? all
                  : pattern.ends_with(".*") ? groups[pattern.substr(0, pattern.size() - 2)]
                                            : exact[pattern];
    if (place.empty() || place.back() != index) place.push_back(index);
  }
  rules.push_back(std::move(rule));
}

void Engine::Table::finish() {
  const auto only_allows = [](const Rule& rule) {
    return rule.permits && rule.strictness() <= 1 && !rule.rate && rule.when.empty() && rule.unless.empty();
  };
  is_open = token_methods.empty() && std::all_of(rules.begin(), rules.end(), only_allows) &&
            std::any_of(all.begin(), all.end(), [this](std::uint32_t i) { return rules[i].names == Rule::Names::all; });
}

Engine::Table Engine::compile(const std::string& id, ContainerPolicy policy) const {
  const Principal principal = Principal::container(id);
  const std::string prefix = "profile." + policy.profile;
  Table table;
  table.token_methods = policy.token_methods;
  table.add(allow_rule(prefix + ".methods", "profile", policy.methods, Rule::Names::methods));
  table.add(allow_rule(prefix + ".signals", "profile", policy.signals, Rule::Names::signals));
  for (const Rule& rule : policy.rules) table.add(rule);
  for (const Rule& rule : rules_) {
    if (rule.concerns(principal, policy.profile)) table.add(rule);
  }
  table.finish();
  table.given = std::move(policy);
  return table;
}

void Engine::compile_host() {
  host_ = Table();
  host_.token_methods = host_policy_.token_methods;
  host_.add(allow_rule("host.methods", "[host]", host_policy_.methods, Rule::Names::all));
  for (const Rule& rule : rules_) {
    if (rule.concerns(Principal::host(), {})) host_.add(rule);
  }
  host_.finish();
}

void Engine::replace(HostPolicy host, std::vector<Rule> rules, const Profiles& profiles, std::string_view commands) {
  host_policy_ = std::move(host);
  rules_ = std::move(rules);
  compile_host();
  for (auto& [id, table] : containers_) table = compile(id, std::move(table.given));
  const std::string all = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_array();
    for (const auto* list : {&host_policy_.methods, &host_policy_.token_methods}) {
      json.begin_array();
      for (const std::string& item : *list) json.value(item);
      json.end_array();
    }
    for (const Rule& rule : rules_) json.value(rule.text);
    for (const auto& [name, profile] : profiles.all()) json.value(name).value(profile.text);
    json.value(commands).end_array();
  });
  hash_ = to_hex(wire::sha256(as_bytes(all)));
}

void Engine::set_container(const std::string& id, ContainerPolicy policy) {
  containers_.insert_or_assign(id, compile(id, std::move(policy)));
}

// ---- deciding ----

const Engine::Table* Engine::table_of(const Principal& principal) const {
  if (principal.is_host()) return &host_;
  const auto found = containers_.find(principal.container_id());
  return found == containers_.end() ? nullptr : &found->second;
}

// Each matching rule once, though several of its patterns may match.
template <typename Visit>
void Engine::Table::visit(const Question& question, Visit&& visit) const {
  const std::string_view name = question.method;
  const bool is_signal = is_signal_name(name);
  const auto look = [&](const std::vector<std::uint32_t>& indexes, auto&& was_seen) {
    for (const std::uint32_t index : indexes) {
      const Rule& rule = rules[index];
      if (rule.names != Rule::Names::all && (rule.names == Rule::Names::signals) != is_signal) continue;
      // A rule with several patterns could be found by more than one of them.
      if (rule.match.size() > 1 && was_seen(rule)) continue;
      if (rule.matches_payload(question.params)) visit(rule);
    }
  };
  const auto is_exact = [&](const Rule& rule) {
    return std::find(rule.match.begin(), rule.match.end(), name) != rule.match.end();
  };
  if (const auto found = exact.find(name); found != exact.end()) look(found->second, [](const Rule&) { return false; });
  for (std::size_t dot = groups.empty() ? std::string_view::npos : name.find('.'); dot != std::string_view::npos;
       dot = name.find('.', dot + 1)) {
    const auto found = groups.find(name.substr(0, dot));
    if (found == groups.end()) continue;
    look(found->second, [&](const Rule& rule) {
      if (is_exact(rule)) return true;
      // A shorter group of the same rule was found before.
      return std::any_of(rule.match.begin(), rule.match.end(), [&](const std::string& pattern) {
        return pattern.size() - 2 < dot && pattern != "*" && policy::matches(pattern, name);
      });
    });
  }
  look(all, [&](const Rule& rule) {
    return std::any_of(rule.match.begin(), rule.match.end(),
                       [&](const std::string& pattern) { return pattern != "*" && policy::matches(pattern, name); });
  });
}

template <typename OnMatch>
Engine::Outcome Engine::weigh(const Table& table, const Question& question, OnMatch&& on_match) {
  Outcome outcome;
  table.visit(question, [&](const Rule& rule) {
    on_match(rule);
    outcome.is_permitted |= rule.permits;
    outcome.is_denied |= rule.denies;
    outcome.needs_deputy |= rule.needs_deputy;
    outcome.needs_human |= rule.needs_human;
    if (outcome.strictest == nullptr || rule.strictness() > outcome.strictest->strictness()) outcome.strictest = &rule;
    if (rule.rate) outcome.rates.push_back(&*rule.rate);
  });
  // Whoever answers reviews is not reviewed: nobody would be left to answer that.
  if (question.principal.is_host() && question.method.starts_with("approval.")) {
    outcome.needs_deputy = outcome.needs_human = false;
  }
  return outcome;
}

Decision Engine::consider(const Question& question) const {
  Decision decision;
  const Table* table = table_of(question.principal);
  if (table == nullptr) {
    decision.why = "nothing is known of it (default deny)";
    return decision;
  }
  std::vector<const Rule*> matched;
  matched.reserve(8);
  const Outcome outcome = weigh(*table, question, [&](const Rule& rule) { matched.push_back(&rule); });
  decision.is_denied = outcome.is_denied || !outcome.is_permitted;
  decision.needs_deputy = !decision.is_denied && outcome.needs_deputy;
  decision.needs_human = !decision.is_denied && outcome.needs_human;
  if (!decision.is_denied) {
    for (const RateLimit* rate : outcome.rates) decision.rates.push_back(*rate);
    const std::string& other = table->given.counts_as;
    decision.counts_as = other.empty() ? question.principal.to_string() : other;
  }
  if (outcome.strictest != nullptr) decision.rule = outcome.strictest->name;
  if (matched.size() > 1) decision.also_matched.reserve(matched.size() - 1);
  for (const Rule* rule : matched) {
    if (rule != outcome.strictest) decision.also_matched.push_back(rule->name);
  }
  decision.why = because(decision, outcome.strictest);
  return decision;
}

Status Engine::check_token(const Table& table, const Question& question) const {
  if (!matches_any(table.token_methods, question.method)) return ok();
  // A signal cannot carry one, and nobody can have one before it was made.
  if (is_signal_name(question.method) || question.method == "token.create") return ok();
  return tokens_.check(question.token, question.principal, question.process, question.method);
}

Status Engine::check_token(const Question& question) const {
  const Table* table = table_of(question.principal);
  return table == nullptr ? ok() : check_token(*table, question);
}

Result<Permit> Engine::permit(const Question& question, const Decision& decision, const Granted& granted) const {
  const Decision now = consider(question);
  if (now.is_denied) return denied(question, now.why);
  if (!(now == decision)) return denied(question, "the policy changed since it was decided: " + now.why);
  if ((now.needs_deputy && !granted.deputy) || (now.needs_human && !granted.human)) {
    return denied(question, "not granted: " + now.why);
  }
  TRY(check_token(*table_of(question.principal), question));
  return Permit(question.principal, question.method);
}

std::optional<Permit> Engine::permit_at_once(const Question& question) const {
  const Table* table = table_of(question.principal);
  if (table == nullptr) return std::nullopt;
  if (table->is_open) return Permit(question.principal, question.method);
  const Outcome outcome = weigh(*table, question, [](const Rule&) {});
  const bool is_plain = outcome.is_permitted && !outcome.is_denied && !outcome.needs_deputy && !outcome.needs_human;
  if (!is_plain || !outcome.rates.empty() || !check_token(*table, question)) return std::nullopt;
  return Permit(question.principal, question.method);
}

}  // namespace sallyport::policy

#include "policy/rule_toml.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "policy/tokens.h"

namespace sallyport::policy {
namespace {

namespace table = toml_table;

constexpr std::size_t kMaxRules = 10'000;
constexpr std::size_t kMaxPathDepth = 32;

std::string where(const std::string& path, const toml::node& node) {
  return path + ":" + std::to_string(node.source().begin.line);
}

// ---- names and effects ----

Status read_names(const std::string& path, const toml::node& node, std::vector<std::string>& names) {
  const auto add = [&](const toml::node& item) -> Status {
    const auto name = item.value_exact<std::string>();
    if (!name) return table::fault(path, item.source(), "'match' must be a name or an array of names");
    if (const auto problem = name_pattern_problem(*name, Rule::Names::all)) {
      return table::fault(path, item.source(), "'match' has " + *problem);
    }
    names.push_back(*name);
    return ok();
  };
  const toml::array* list = node.as_array();
  if (list == nullptr) return add(node);
  if (list->empty()) return table::fault(path, node.source(), "'match' names nothing");
  for (const toml::node& item : *list) TRY(add(item));
  return ok();
}

// ---- tests ----

std::optional<FieldTest::Literal> literal(const toml::node& node) {
  if (const auto flag = node.value_exact<bool>()) return *flag;
  if (const auto integer = node.value_exact<std::int64_t>()) return *integer;
  // Nothing is equal to nan, and nothing is above or below it.
  if (const auto number = node.value_exact<double>()) {
    return std::isnan(*number) ? std::nullopt : std::optional<FieldTest::Literal>(*number);
  }
  if (const auto text = node.value_exact<std::string>()) return *text;
  return std::nullopt;
}

Status read_test(const std::string& path, const toml::key& key, const toml::node& node, FieldTest& test) {
  const std::string word(key.str());
  const auto fault = [&](const char* problem) {
    return table::fault(path, node.source(), "'" + word + "' " + problem);
  };
  if (word == "equals") {
    const auto one = literal(node);
    if (!one) return fault("must be text, a number, true or false");
    test.literals = {*one};
  } else if (word == "one_of") {
    const toml::array* list = node.as_array();
    if (list == nullptr || list->empty()) return fault("must be an array of text, numbers, true or false");
    for (const toml::node& item : *list) {
      const auto one = literal(item);
      if (!one) return table::fault(path, item.source(), "'one_of' takes text, numbers, true or false");
      test.literals.push_back(*one);
    }
  } else if (word == "prefix" || word == "glob") {
    const auto text = node.value_exact<std::string>();
    if (!text || text->empty()) return fault("must be text");
    test.kind = word == "glob" ? FieldTest::Kind::glob : FieldTest::Kind::prefix;
    test.text = *text;
  } else if (word == "max_length") {
    const auto length = node.value_exact<std::int64_t>();
    if (!length || *length < 0) return fault("must be a whole number");
    test.kind = FieldTest::Kind::max_length;
    test.length = static_cast<std::uint64_t>(*length);
  } else if (word == "min" || word == "max") {
    const auto bound = node.is_number() ? node.value<double>() : std::nullopt;
    if (!bound || std::isnan(*bound)) return fault("must be a number");
    test.kind = FieldTest::Kind::range;
    (word == "min" ? test.least : test.most) = *bound;
  } else {
    return table::fault(path, key.source(),
                        "unknown test '" + word + "'; there are equals, one_of, prefix, glob, max_length, min, max");
  }
  return ok();
}

std::optional<std::vector<std::string>> split_path(std::string_view text) {
  std::vector<std::string> keys;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t dot = std::min(text.find('.', from), text.size());
    if (dot == from || keys.size() == kMaxPathDepth) return std::nullopt;
    keys.emplace_back(text.substr(from, dot - from));
    from = dot + 1;
  }
  return keys;
}

// { "config.name" = "x", prompt = { max_length = 100 } }
Status read_tests(const std::string& path, std::string_view word, const toml::node& node,
                  std::vector<FieldTest>& tests) {
  const toml::table* fields = node.as_table();
  if (fields == nullptr || fields->empty()) {
    return table::fault(path, node.source(), "'" + std::string(word) + "' must be a table of fields and their tests");
  }
  for (const auto& [key, value] : *fields) {
    const auto keys = split_path(key.str());
    if (!keys) return table::fault(path, key.source(), "'" + std::string(key.str()) + "' is no path of a field");
    const toml::table* several = value.as_table();
    if (several == nullptr) {
      const auto one = literal(value);
      if (!one) return table::fault(path, value.source(), "'" + std::string(key.str()) + "' must be a value or a test");
      tests.push_back({.path = *keys, .literals = {*one}, .text = {}});
      continue;
    }
    if (several->empty()) return table::fault(path, value.source(), "'" + std::string(key.str()) + "' tests nothing");
    double least = -std::numeric_limits<double>::infinity(), most = -least;
    for (const auto& [name, test] : *several) {
      FieldTest made{.path = *keys, .literals = {}, .text = {}};
      TRY(read_test(path, name, test, made));
      least = std::max(least, made.least);
      most = std::min(most, made.most);
      tests.push_back(std::move(made));
    }
    if (least > most) return table::fault(path, value.source(), "'min' is above 'max': nothing fits between them");
  }
  return ok();
}

// ---- examples ----

// As JSON has it; nullopt for what JSON has not (dates).
bool write_json(wire::JsonWriter& json, const toml::node& node) {
  if (const toml::table* fields = node.as_table()) {
    json.begin_object();
    for (const auto& [key, value] : *fields) {
      json.key(key.str());
      if (!write_json(json, value)) return false;
    }
    json.end_object();
  } else if (const toml::array* items = node.as_array()) {
    json.begin_array();
    for (const toml::node& item : *items) {
      if (!write_json(json, item)) return false;
    }
    json.end_array();
  } else if (const auto one = literal(node)) {
    std::visit([&](const auto& value) { json.value(value); }, *one);
  } else {
    return false;
  }
  return true;
}

// "NAME" or { name = "NAME", payload = { ... } }
Status try_example(const std::string& path, const toml::node& node, const Rule& rule, bool should_match) {
  std::string name;
  std::string payload;
  if (const auto text = node.value_exact<std::string>()) {
    name = *text;
  } else {
    const toml::node* given = nullptr;
    TRY(table::read(path, "examples", node,
                    {{"name",
                      [&](const toml::node& value) -> std::optional<std::string> {
                        const auto word = value.value_exact<std::string>();
                        if (!word) return "must be text";
                        name = *word;
                        return std::nullopt;
                      }},
                     {"payload", [&](const toml::node& value) -> std::optional<std::string> {
                        given = &value;
                        return value.is_table() ? std::nullopt : std::optional<std::string>("must be a table");
                      }}}));
    if (given != nullptr) {
      Bytes out;
      wire::JsonWriter json(out);
      if (!write_json(json, *given)) return table::fault(path, given->source(), "'payload' has what JSON cannot say");
      payload = as_text(out.view());
    }
  }
  wire::Decoder decoder;
  wire::Document document;
  if (!payload.empty()) {
    auto parsed = decoder.parse(payload);
    if (!parsed) return table::fault(path, node.source(), "'payload' is refused: " + parsed.error().message);
    document = std::move(*parsed);
  }
  if (rule.matches(name, payload.empty() ? wire::Value() : document.root()) == should_match) return ok();
  return table::fault(path, node.source(),
                      "the example '" + name + "' of '" + rule.name + "' " +
                          (should_match ? "should match and does not" : "should not match and does"));
}

Status try_examples(const std::string& path, const toml::node& node, const Rule& rule) {
  const toml::table* lists = node.as_table();
  if (lists == nullptr) return table::fault(path, node.source(), "'examples' must be a table");
  for (const auto& [key, value] : *lists) {
    const bool should_match = key.str() == "match";
    if (!should_match && key.str() != "not_match") {
      return table::fault(path, key.source(),
                          "unknown key '" + std::string(key.str()) + "' in examples; there are match and not_match");
    }
    const toml::array* items = value.as_array();
    if (items == nullptr)
      return table::fault(path, value.source(), "'" + std::string(key.str()) + "' must be an array");
    for (const toml::node& item : *items) TRY(try_example(path, item, rule, should_match));
  }
  return ok();
}

// ---- a whole rule ----

Status check_principals(const std::string& path, const toml::node& node, const std::vector<std::string>& principals) {
  constexpr std::string_view kContainer = "container/";
  for (const std::string& one : principals) {
    const bool is_container =
        one.starts_with(kContainer) && Principal::is_container_id(std::string_view(one).substr(kContainer.size()));
    if (one != "host" && !is_container) {
      return table::fault(path, node.source(), "'" + one + "' is no principal: host or container/ID");
    }
  }
  return ok();
}

Result<Rule> read_rule(const std::string& path, const toml::node& node, const std::string& prefix,
                       const std::string& profile) {
  Rule rule;
  std::map<std::string, const toml::node*> later;
  const auto keep = [&later](const char* word) -> table::Setter {
    return [&later, word](const toml::node& value) -> std::optional<std::string> {
      later[word] = &value;
      return std::nullopt;
    };
  };
  table::Setters setters = {
      {"name",
       [&](const toml::node& value) -> std::optional<std::string> {
         const auto text = value.value_exact<std::string>();
         if (!text || text->empty() || text->size() > 64) return "must be 1 to 64 bytes of text";
         rule.name = prefix + *text;
         return std::nullopt;
       }},
      {"match", keep("match")},
      {"effect", keep("effect")},
      {"when", keep("when")},
      {"unless", keep("unless")},
      {"examples", keep("examples")},
      {"rate",
       [&](const toml::node& value) -> std::optional<std::string> {
         const auto text = value.value_exact<std::string>();
         if (!text) return "must be text such as 5/h";
         auto rate = parse_rate(*text);
         if (!rate) return rate.error().message;
         rule.rate = std::move(*rate);
         return std::nullopt;
       }},
  };
  if (profile.empty()) {
    setters.emplace("profile", table::strings(rule.profiles));
    setters.emplace("principal", [&](const toml::node& value) {
      later["principal"] = &value;
      return table::strings(rule.principals)(value);
    });
  }
  TRY(table::read(path, "rule", node, setters));
  if (rule.name.empty()) return table::fault(path, node.source(), "the rule has no 'name'");
  if (!later.contains("match")) return table::fault(path, node.source(), "'" + rule.name + "' has no 'match'");
  TRY(read_names(path, *later["match"], rule.match));
  if (later.contains("principal")) TRY(check_principals(path, *later["principal"], rule.principals));
  if (later.contains("effect")) {
    TRY(read_effects(path, *later["effect"], rule));
    rule.permits = !rule.denies;
  } else if (!rule.rate) {
    return table::fault(path, node.source(), "'" + rule.name + "' has neither 'effect' nor 'rate'");
  }
  for (const char* word : {"when", "unless"}) {
    if (later.contains(word)) TRY(read_tests(path, word, *later[word], word[0] == 'w' ? rule.when : rule.unless));
  }
  if (!profile.empty()) rule.profiles = {profile};
  if (rule.rate) rule.rate->rule = rule.name;
  rule.source = where(path, node);
  std::ostringstream text;
  text << toml::toml_formatter(*node.as_table());
  rule.text = prefix + text.str();
  if (later.contains("examples")) TRY(try_examples(path, *later["examples"], rule));
  return rule;
}

}  // namespace

Status read_effects(const std::string& path, const toml::node& node, Rule& rule) {
  const auto add = [&](const toml::node& item) -> Status {
    const std::string word = item.value_exact<std::string>().value_or("");
    if (word == "allow") {
      rule.allows = true;
    } else if (word == "deputy") {
      rule.needs_deputy = true;
    } else if (word == "human") {
      rule.needs_human = true;
    } else if (word == "deny") {
      rule.denies = true;
    } else {
      return table::fault(path, item.source(), "'" + word + "' is none of allow, deputy, human, deny");
    }
    return ok();
  };
  const toml::array* list = node.as_array();
  if (list == nullptr) return add(node);
  if (list->empty()) return table::fault(path, node.source(), "names none of allow, deputy, human, deny");
  for (const toml::node& item : *list) TRY(add(item));
  return ok();
}

Result<std::vector<Rule>> read_rules(const std::string& path, const toml::node& node, const std::string& prefix,
                                     const std::string& profile) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return table::fault(path, node.source(), "'rule' must be written as [[rule]]");
  if (list->size() > kMaxRules) return table::fault(path, node.source(), "too many rules");
  std::vector<Rule> rules;
  std::set<std::string> names;
  for (const toml::node& item : *list) {
    TRY(Rule rule, read_rule(path, item, prefix, profile));
    if (!names.insert(rule.name).second) {
      return table::fault(path, item.source(), "'" + rule.name + "' is the name of an earlier rule");
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

Result<std::vector<Rule>> parse_rules(std::string_view text, const std::string& path) {
  TRY(const toml::table root, table::parse(text, path));
  const toml::node* rules = root.get("rule");
  if (rules == nullptr) return std::vector<Rule>();
  return read_rules(path, *rules, "rule.");
}

}  // namespace sallyport::policy

#include "worker/ignore.h"

#include <algorithm>

#include "worker/limits.h"

namespace sallyport::worker {
namespace {

// Spaces at the end are dropped unless a backslash keeps the first of them.
std::string_view trim_trailing_spaces(std::string_view line) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      i = std::min(i + 1, line.size() - 1);
      kept = i + 1;
    } else if (line[i] != ' ') {
      kept = i + 1;
    }
  }
  return line.substr(0, kept);
}

constexpr std::string_view kSigns = "*?[\\";
bool has_sign(std::string_view text) { return text.find_first_of(kSigns) != std::string_view::npos; }

}  // namespace

IgnoreRules IgnoreRules::parse(std::string_view text) {
  IgnoreRules rules;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    // git reads a line as a C string.
    line = line.substr(0, line.find('\0'));
    if (!line.empty() && line[0] != '#') rules.add(trim_trailing_spaces(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rules;
}

void IgnoreRules::add(std::string_view line) {
  const bool is_negated = line.starts_with('!');
  if (is_negated) line.remove_prefix(1);
  const bool is_for_directories = line.ends_with('/');
  if (is_for_directories) line.remove_suffix(1);
  if (line.empty()) return;
  const bool is_by_name = line.find('/') == std::string_view::npos;
  if (line.starts_with('/')) line.remove_prefix(1);
  const auto number = static_cast<std::uint32_t>(rules_.size());
  // git compares the literal beginning of a path rule first and matches the rest on its own, so that
  // in `b**/c` the stars stand at a beginning. Odd, but being equal matters more.
  const std::size_t literal = is_by_name ? 0 : std::min(line.find_first_of(kSigns), line.size());
  rules_.push_back(
      {std::string(line.substr(0, literal)), Glob(line.substr(literal)), is_negated, is_for_directories, is_by_name});
  const std::string_view extension = line.starts_with("*.") ? line.substr(1) : std::string_view();
  if (is_by_name && !has_sign(line)) {
    by_name_[std::string(line)].push_back(number);
  } else if (is_by_name && !extension.empty() && !has_sign(extension) && extension.rfind('.') == 0) {
    by_extension_[std::string(extension)].push_back(number);
  } else {
    by_glob_.push_back(number);
  }
}

Verdict IgnoreRules::judge(std::string_view path, std::string_view name, bool is_directory, const Stop& stop) const {
  std::int64_t last = -1;
  const auto consider = [&](const Index& index, std::string_view key) {
    const auto found = index.find(key);
    if (found == index.end()) return;
    for (auto number = found->second.rbegin(); number != found->second.rend() && *number > last; ++number) {
      if (is_directory || !rules_[*number].is_for_directories) last = *number;
    }
  };
  if (!by_name_.empty()) consider(by_name_, name);
  if (!by_extension_.empty()) {
    const std::size_t dot = name.rfind('.');
    if (dot != std::string_view::npos) consider(by_extension_, name.substr(dot));
  }
  std::size_t compared = 0;
  for (auto number = by_glob_.rbegin(); number != by_glob_.rend() && *number > last; ++number) {
    const Rule& rule = rules_[*number];
    if (rule.is_for_directories && !is_directory) continue;
    compared += rule.is_by_name ? name.size() : path.size();
    if (compared > kJudgedBytes) {
      if (stop.is_over()) return Verdict::none;
      compared = 0;
    }
    const bool is_match = rule.is_by_name
                              ? rule.glob.matches(name)
                              : path.starts_with(rule.prefix) && rule.glob.matches(path.substr(rule.prefix.size()));
    if (is_match) last = *number;
  }
  if (last < 0) return Verdict::none;
  return rules_[static_cast<std::size_t>(last)].is_negated ? Verdict::included : Verdict::ignored;
}

Verdict IgnoreScope::judge(const IgnoreScope* scope, std::string_view path, std::string_view name, bool is_directory,
                           const Stop& stop) {
  for (; scope != nullptr; scope = scope->parent.get()) {
    const Verdict verdict = scope->rules.judge(path.substr(scope->base), name, is_directory, stop);
    if (verdict != Verdict::none) return verdict;
  }
  return Verdict::none;
}

}  // namespace sallyport::worker

#include "sandbox/git_state.h"

#include <algorithm>
#include <array>

#include "sandbox/git_config.h"
#include "sandbox/git_index.h"
#include "sandbox/protected_names.h"

namespace sallyport::sandbox {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Any other one is a program, git-merge-NAME, and a name may be a path.
constexpr std::array<std::string_view, 6> kMergeStrategies = {"ort",     "recursive", "resolve",
                                                              "octopus", "ours",      "subtree"};

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  while (!text.empty() && kBlanks.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  return text;
}

bool is_foreign_strategy(std::string_view name) { return !name.empty() && !is_one_of(kMergeStrategies, name); }

bool has_foreign_strategy(std::string_view options) {
  const GitConfig config = read_git_config(options);
  return !config.is_understood ||
         std::any_of(config.settings.begin(), config.settings.end(), [](const GitSetting& setting) {
           return setting.key == "options.strategy" && is_foreign_strategy(setting.value);
         });
}

// The next commit copies what the paths in it lead to, links and all, into the git directory. Neither a reference that
// has this name nor its log has one of these behind its first hash.
bool has_resolution(std::string_view content) {
  const std::size_t behind = content.find_first_not_of("0123456789abcdefABCDEF");
  return behind != std::string_view::npos && (content[behind] == '\t' || content[behind] == '.');
}

// What is there of a path, from a component on.
bool ends_in(std::string_view path, std::string_view ending) {
  if (!path.ends_with(ending)) return false;
  return path.size() == ending.size() || path[path.size() - ending.size() - 1] == '/';
}

enum class Kind : std::uint8_t { none, todo, strategy, sequencer, patch_options, resolutions, index, remote };

Kind kind_of(std::string_view below) {
  if (below == "index" || below.ends_with("/index")) return Kind::index;
  if (below.substr(below.rfind('/') + 1).starts_with("sharedindex.")) return Kind::index;
  if (ends_in(below, "MERGE_RR")) return Kind::resolutions;
  if (ends_in(below, "rebase-merge/git-rebase-todo")) return Kind::todo;
  if (ends_in(below, "rebase-merge/strategy")) return Kind::strategy;
  if (ends_in(below, "sequencer/opts")) return Kind::sequencer;
  if (ends_in(below, "rebase-apply/apply-opt")) return Kind::patch_options;
  if (below.starts_with("remotes/") || below.starts_with("branches/")) return Kind::remote;
  return Kind::none;
}

GitState may_run(bool is_harmful) { return is_harmful ? GitState::may_run : GitState::harmless; }
GitState leads_away(bool is_harmful) { return is_harmful ? GitState::leads_away : GitState::harmless; }

}  // namespace

bool is_git_state(std::string_view below) { return kind_of(below) != Kind::none; }

GitState judge_git_state(std::string_view below, std::string_view content, std::size_t name_bytes) {
  switch (kind_of(below)) {
    case Kind::none:
      return GitState::harmless;
    case Kind::todo:
      return may_run(has_command(content));
    case Kind::strategy:
      return may_run(is_foreign_strategy(trimmed(content)));
    case Kind::sequencer:
      return may_run(has_foreign_strategy(content));
    case Kind::patch_options:  // of "git apply", which writes where some of them say
      return may_run(!trimmed(content).empty());
    case Kind::resolutions:
      return leads_away(has_resolution(content));
    case Kind::index:
      return leads_away(content.starts_with(kIndexSignature) && !is_index_in_tree(content, name_bytes));
    case Kind::remote:
      // Like a remote of the configuration, which is pinned; git itself stopped writing these long ago.
      return leads_away(!content.empty());
  }
  return GitState::leads_away;
}

bool has_command(std::string_view todo) {
  constexpr std::string_view kBetween = " \t";
  while (!todo.empty()) {
    std::string_view line = todo.substr(0, todo.find('\n'));
    todo.remove_prefix(std::min(line.size() + 1, todo.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kBetween), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(kBetween));
    if ((word == "exec" || word == "x") && word.size() < line.size()) return true;
  }
  return false;
}

}  // namespace sallyport::sandbox

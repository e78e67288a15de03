#include "sandbox/git_state.h"

#include <algorithm>
#include <array>

#include "sandbox/git_config.h"
#include "sandbox/git_index.h"
#include "sandbox/protected_names.h"

namespace sallyport::sandbox {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

// Any other one is a program, git-merge-NAME.
constexpr std::array<std::string_view, 6> kMergeStrategies = {"ort",     "recursive", "resolve",
                                                              "octopus", "ours",      "subtree"};

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  while (!text.empty() && kBlanks.find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  return text;
}

GitState may_run(bool is_harmful) { return is_harmful ? GitState::may_run : GitState::harmless; }
GitState leads_away(bool is_harmful) { return is_harmful ? GitState::leads_away : GitState::harmless; }

GitState judge_strategy(std::string_view content, std::size_t) {
  const std::string_view name = trimmed(content);
  // A path leads to a program of the work tree.
  if (name.find('/') != std::string_view::npos) return GitState::leads_away;
  return may_run(!name.empty() && !is_one_of(kMergeStrategies, name));
}

// A configuration file of its own, read without includes.
GitState judge_options(std::string_view content, std::size_t name_bytes) {
  const GitConfig options = read_git_config(content);
  GitState worst = leads_away(!options.is_understood);
  for (const GitSetting& setting : options.settings) {
    if (setting.key == "options.strategy") worst = std::max(worst, judge_strategy(setting.value, name_bytes));
  }
  return worst;
}

GitState judge_todo(std::string_view content, std::size_t) { return may_run(has_command(content)); }

// Of "git apply", which writes where some of them say.
GitState judge_patch_options(std::string_view content, std::size_t) { return may_run(!trimmed(content).empty()); }

// The next commit copies what the paths in it lead to, links and all, into the git directory. Neither a reference that
// has this name nor its log has one of these behind its first hash.
GitState judge_resolutions(std::string_view content, std::size_t) {
  const std::size_t behind = content.find_first_not_of("0123456789abcdefABCDEF");
  return leads_away(behind != std::string_view::npos && (content[behind] == '\t' || content[behind] == '.'));
}

GitState judge_index(std::string_view content, std::size_t name_bytes) {
  return leads_away(content.starts_with(kIndexSignature) && !is_harmless_index(content, name_bytes));
}

// Like a remote of the configuration, which is pinned; git itself stopped writing these long ago.
GitState judge_remote(std::string_view content, std::size_t) { return leads_away(!content.empty()); }

struct StateFile {
  std::string_view path;
  GitState (*judge)(std::string_view content, std::size_t name_bytes);
};

constexpr std::array<StateFile, 7> kStateFiles = {{
    {"index", judge_index},
    {"MERGE_RR", judge_resolutions},
    {"rebase-merge/git-rebase-todo", judge_todo},
    {"rebase-merge/strategy", judge_strategy},
    {"rebase-apply/strategy", judge_strategy},
    {"rebase-apply/apply-opt", judge_patch_options},
    {"sequencer/opts", judge_options},
}};

StateFile state_file(std::string_view below) {
  if (below.ends_with(".quarantined")) return {below, nullptr};  // once is enough
  if (below.substr(below.rfind('/') + 1).starts_with("sharedindex.")) return {below, judge_index};
  if (below.starts_with("remotes/") || below.starts_with("branches/")) return {below, judge_remote};
  for (const StateFile& file : kStateFiles) {
    if (!below.ends_with(file.path)) continue;
    if (below.size() == file.path.size() || below[below.size() - file.path.size() - 1] == '/') return file;
  }
  return {below, nullptr};
}

}  // namespace

bool is_git_state(std::string_view below) { return state_file(below).judge != nullptr; }

std::vector<std::string> git_state_files() {
  std::vector<std::string> paths;
  for (const StateFile& file : kStateFiles) paths.emplace_back(file.path);
  return paths;
}

GitState judge_git_state(std::string_view below, std::string_view content, std::size_t name_bytes) {
  const StateFile file = state_file(below);
  return file.judge != nullptr ? file.judge(content, name_bytes) : GitState::harmless;
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

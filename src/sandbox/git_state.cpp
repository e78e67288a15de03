#include "sandbox/git_state.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "os/paths.h"
#include "sandbox/git_config.h"
#include "sandbox/git_files.h"
#include "sandbox/git_index.h"

namespace sallyport::sandbox {
namespace {

constexpr std::size_t kMaxIndexBytes = 128U << 20;  // of a million files
constexpr std::size_t kMaxStateBytes = 1U << 20;

// A configuration file of its own, read without includes.
bool is_options_file_harmful(const std::string& text) {
  const GitConfig options = read_git_config(text);
  return !options.is_understood ||
         std::any_of(options.settings.begin(), options.settings.end(), [](const GitSetting& setting) {
           return setting.key == "options.strategy" && is_strategy_a_path(setting.value);
         });
}

// "git worktree repair" writes to where it leads.
bool leads_out(const std::string& text, const HeldDirectory& git, const HeldDirectory& workspace) {
  const std::string tree = parent_of(commondir_target(text, git.path()));
  const std::string straight = std::filesystem::path(tree).lexically_normal();
  const auto real = os::real_path(tree);
  return !os::is_within(straight, workspace.path()) || (real && *real != straight);
}

// "rerere" copies the files that are listed in MERGE_RR into the git directory, with the next commit, and follows
// links. A list of the user's own is left alone for as long as it leads to none.
bool lists_a_link(const HeldDirectory& git) {
  const auto list = read_small_file_at(git.fd(), "MERGE_RR", kMaxStateBytes);
  const auto tree = HeldDirectory::open(parent_of(git.path()));
  if (!list || !tree || !git.path().ends_with("/.git")) return false;
  for (std::size_t at = 0; at < list->size();) {
    const std::size_t end = std::min(list->find('\0', at), list->size());
    const std::string_view entry = std::string_view(*list).substr(at, end - at);
    const std::string path = tree->path_of(std::string(entry.substr(entry.find('\t') + 1)));
    const auto holder = tree->open_inside(parent_of(path));
    const auto info = holder ? holder->look_at(path.substr(path.rfind('/') + 1)) : std::nullopt;
    if (info ? !S_ISREG(info->st_mode) : os::real_path(path).has_value()) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

bool has_command(std::string_view todo) {
  constexpr std::string_view kBlanks = " \t";
  while (!todo.empty()) {
    std::string_view line = todo.substr(0, todo.find('\n'));
    todo.remove_prefix(std::min(line.size() + 1, todo.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
    if ((word == "exec" || word == "x") && word.size() < line.size()) return true;
  }
  return false;
}

bool is_strategy_a_path(std::string_view strategy) { return strategy.find('/') != std::string_view::npos; }

bool is_harmful_index(const HeldDirectory& git, const std::string& name, const HeldDirectory& workspace) {
  const auto target = commondir_target(git.path());
  const auto common = target ? os::real_path(*target) : std::nullopt;
  const bool is_inside = common && os::is_within(*common, workspace.path());
  const auto index = read_small_file_at(git.fd(), name.c_str(), kMaxIndexBytes);
  return !index || !is_harmless_index(*index, name_bytes_of(is_inside ? *common : git.path()));
}

std::vector<std::string> harmful_state(const HeldDirectory& git, const HeldDirectory& workspace, const IsNew& is_new) {
  std::vector<std::string> found;
  const auto look = [&](const std::string& below, const auto& is_harmful) {
    const std::size_t slash = below.find('/');
    const bool is_deeper = slash != std::string::npos;
    const auto holder = git.open_inside(is_deeper ? git.path_of(below.substr(0, slash)) : git.path());
    const std::string name = is_deeper ? below.substr(slash + 1) : below;
    if (!holder || !holder->look_at(name) || !is_new(*holder, name)) return;
    if (is_harmful(*holder, name)) found.push_back(below);
  };
  // What is no file, or cannot be read, is not git's.
  const auto reading = [](const auto& judge) {
    return [judge](const HeldDirectory& directory, const std::string& name) {
      const auto text = read_small_file_at(directory.fd(), name.c_str(), kMaxStateBytes);
      return !text || judge(*text);
    };
  };
  look("index", [&](const HeldDirectory& directory, const std::string& name) {
    return is_harmful_index(directory, name, workspace);
  });
  look("MERGE_RR", reading([](const std::string& text) { return !text.empty(); }));
  const bool is_found = !found.empty() && found.back() == "MERGE_RR";
  if (!is_found && lists_a_link(git)) found.emplace_back("MERGE_RR");
  for (const char* strategy : {"rebase-merge/strategy", "rebase-apply/strategy"}) {
    look(strategy, reading(is_strategy_a_path));
  }
  look("sequencer/opts", reading(is_options_file_harmful));
  if (parent_of(git.path()).ends_with("/worktrees")) {
    look("gitdir", reading([&](const std::string& text) { return leads_out(text, git, workspace); }));
  }
  return found;
}

}  // namespace sallyport::sandbox

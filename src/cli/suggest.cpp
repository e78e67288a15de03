#include "cli/suggest.h"

#include <algorithm>
#include <vector>

#include "cli/cli11.h"
#include "cli/help.h"

namespace sallyport::cli {
namespace {

// Letters that are wrong, missing, too many, or in the place of their neighbour.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& { return table[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        at(i, j) = i + j;
        continue;
      }
      const std::size_t change = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({change, at(i - 1, j) + 1, at(i, j - 1) + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return table.back();
}

// The entry within this many mistakes of the word.
std::string nearest(const std::vector<HelpEntry>& entries, const std::string& word, std::size_t most) {
  std::string nearest;
  for (const HelpEntry& entry : entries) {
    // Also one that was not written to its end.
    const bool is_begun = word.size() > 3 && entry.name.starts_with(word);
    const std::size_t distance = is_begun ? 1 : edit_distance(word, entry.name);
    if (distance > most || (distance == most && !nearest.empty())) continue;
    most = distance;
    nearest = entry.name;
  }
  return nearest;
}

// In a short word two mistakes leave nothing of it.
std::size_t mistakes_in(const std::string& word) {
  const std::size_t letters = word.size() - std::min(word.size(), word.find_first_not_of('-'));
  return letters < 2 ? 0 : letters < 4 ? 1 : 2;
}

// Those one step below that have this very name: `sallyport ls`.
std::string below(const CLI::App& app, const std::string& path, const std::string& word) {
  std::string found;
  for (const CLI::App* group : app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); })) {
    for (const HelpEntry& command : commands_of(*group)) {
      if (command.name != word) continue;
      found += (found.empty() ? "" : " or ") + path + " " + group->get_name() + " " + word;
    }
  }
  return found;
}

}  // namespace

std::string nearest_command(const CLI::App& app, const std::string& path, const std::string& word) {
  const std::vector<HelpEntry> commands = commands_of(app);
  const std::size_t most = mistakes_in(word);
  std::string found = nearest(commands, word, std::min<std::size_t>(most, 1));
  if (found.empty()) {
    if (std::string deeper = below(app, path, word); !deeper.empty()) return deeper;
    found = nearest(commands, word, most);
  }
  return found.empty() ? "" : path + " " + found;
}

std::string nearest_option(const CLI::App& app, const std::string& word) {
  return nearest(options_of(app), word, mistakes_in(word));
}

}  // namespace sallyport::cli

#include "cli/help.h"

#include <algorithm>

#include "cli/cli11.h"

namespace sallyport::cli {
namespace {

constexpr std::size_t kScreenColumns = 79;
constexpr std::size_t kWidestName = 24;

std::string in_columns(const std::vector<HelpEntry>& entries) {
  std::size_t width = 0;
  for (const HelpEntry& entry : entries) {
    const std::size_t size = entry.name.size() + (entry.value.empty() ? 0 : 1 + entry.value.size());
    if (size <= kWidestName) width = std::max(width, size);
  }
  std::string page;
  for (const HelpEntry& entry : entries) {
    std::string line = "  " + entry.name + (entry.value.empty() ? "" : " " + entry.value);
    line.resize(std::max(line.size() + 2, width + 4), ' ');
    const std::size_t indent = width + 4;
    std::string text = entry.text;
    while (line.size() + text.size() > kScreenColumns) {
      const std::size_t room = kScreenColumns - line.size();
      const std::size_t space = text.rfind(' ', room);
      if (space == std::string::npos) break;
      page += line + text.substr(0, space) + "\n";
      text.erase(0, space + 1);
      line.assign(indent, ' ');
    }
    page += line + text + "\n";
  }
  return page;
}

std::string usage(const CLI::App& app) {
  std::string path = app.get_name();
  for (const CLI::App* parent = app.get_parent(); parent != nullptr; parent = parent->get_parent()) {
    path.insert(0, parent->get_name() + " ");
  }
  if (!commands_of(app).empty()) return path + " COMMAND";
  std::string positionals;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const bool is_list = option->get_items_expected_max() > 1;
    const std::string name = option->get_name(true) + (is_list ? "..." : "");
    const std::string before = is_list ? " -- " : " ";
    positionals += option->get_required() ? before + name : " [" + (is_list ? "-- " + name : name) + "]";
  }
  return path + " [OPTIONS]" + positionals;
}

class ShortHelp final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::vector<HelpEntry> entries = commands_of(*app);
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) entries.push_back({option->get_name(true), "", option->get_description()});
    }
    const bool is_program = app->get_parent() == nullptr;
    for (HelpEntry& option : options_of(*app)) {
      if (!is_program) entries.push_back(std::move(option));
    }
    std::string page = app->get_description() + "\nUsage: " + usage(*app) + "\n\n" + in_columns(entries);
    // The program has many commands, and a screen has 24 lines.
    if (is_program) page += "Options: --json, --version, --help (also of each command). See sallyport(1).\n";
    return page;
  }
};

}  // namespace

void set_help(CLI::App& app) { app.formatter(std::make_shared<ShortHelp>()); }

std::vector<HelpEntry> commands_of(const CLI::App& app) {
  std::vector<HelpEntry> all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    // A command without a group is hidden.
    if (!command->get_group().empty()) all.push_back({command->get_name(), "", command->get_description()});
  }
  return all;
}

std::vector<HelpEntry> options_of(const CLI::App& app) {
  std::vector<HelpEntry> all;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional() || option->get_group().empty()) continue;
    const auto& names = option->get_lnames();
    HelpEntry entry{names.empty() ? "-" + option->get_snames().front() : "--" + names.front(), "",
                    option->get_description()};
    if (!names.empty() && !option->get_snames().empty()) entry.text += " (-" + option->get_snames().front() + ")";
    if (entry.name == "--help") entry.text = "Show this page";
    if (entry.name == "--version") entry.text = "Show the version";
    if (option->get_items_expected_max() > 0) entry.value = option->get_type_name();
    if (!option->get_default_str().empty()) entry.text += " (default: " + option->get_default_str() + ")";
    all.push_back(std::move(entry));
  }
  return all;
}

}  // namespace sallyport::cli

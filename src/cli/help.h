// Help that fits a screen, and completion for shells: both from the tree of commands itself.
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
class Option;
}  // namespace CLI

namespace sallyport::cli {

struct Context;

// For this program and the commands that are added to it afterwards.
void set_help(CLI::App& app);

// What stands on a page of help or behind a tab: a command, or an option with its longest name.
struct HelpEntry {
  std::string name, value, text;  // `value`: what an option takes; empty for a flag or a command
};
std::vector<HelpEntry> commands_of(const CLI::App& app);  // hidden ones left out
std::vector<HelpEntry> options_of(const CLI::App& app);

// The hidden commands `completion bash|zsh|fish`, which prints a script, and `names KIND`, which that script calls.
void add_completion_command(CLI::App& app, Context& context);

}  // namespace sallyport::cli

#include "cli/cli.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/sanitized.h"
#include "cli/command.h"
#include "cli/help.h"

namespace sallyport::cli {
namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char c : a) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (c == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

// "did you mean" for a word that is none of these.
std::string nearest(const std::vector<HelpEntry>& entries, const std::string& word) {
  std::string nearest;
  std::size_t best = 3;
  for (const HelpEntry& entry : entries) {
    // Also one that was not written to its end.
    const bool is_begun = word.size() > 3 && entry.name.starts_with(word);
    const std::size_t distance = is_begun ? 2 : edit_distance(word, entry.name);
    if (distance < best) {
      best = distance;
      nearest = entry.name;
    }
  }
  return nearest;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

// As far as words are understood.
struct Reading {
  const CLI::App* app;
  std::string path = "sallyport", unknown_command = {}, unknown_option = {};
};

const CLI::Option* find_option(const CLI::App* app, const std::string& name) {
  const CLI::Option* found = nullptr;
  for (; app != nullptr && found == nullptr; app = app->get_parent()) found = app->get_option_no_throw(name);
  return found;
}

Reading read_words(const CLI::App& program, const std::vector<std::string>& words) {
  Reading reading{&program};
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (word.starts_with('-') && word.size() > 1) {
      const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
      const CLI::Option* option = find_option(reading.app, name);
      if (option == nullptr) {
        reading.unknown_option = name;
        return reading;
      }
      const bool has_value = option->get_items_expected_max() > 0;
      if (has_value && name.size() == word.size()) ++i;
      continue;
    }
    if (commands_of(*reading.app).empty()) continue;
    const CLI::App* next = find_command(*reading.app, word);
    if (next == nullptr) {
      reading.unknown_command = word;
      return reading;
    }
    reading.app = next;
    reading.path += " " + word;
  }
  return reading;
}

int usage_error(const CLI::App& program, const std::string& problem, const std::vector<std::string>& words) {
  const auto [app, path, unknown, option] = read_words(program, words);
  std::string text = problem, meant;
  if (!unknown.empty()) {
    text = "unknown command: " + unknown;
    meant = nearest(commands_of(*app), unknown);
  } else if (!option.empty()) {
    text = "unknown option: " + option;
    for (const CLI::App* each = app; each != nullptr && meant.empty(); each = each->get_parent()) {
      meant = nearest(options_of(*each), option);
    }
  } else if (problem == "A subcommand is required") {  // the library's words
    text = "which command? One of:";
    for (const HelpEntry& command : commands_of(*app)) text += " " + command.name;
  }
  if (!meant.empty()) text += "\nDid you mean: " + path + " " + meant;
  text += "\nSee: " + path + " --help";
  // The words were not understood, so what they ask for is looked up; those behind -- are somebody else's.
  const auto own_end = std::find(words.begin(), words.end(), "--");
  if (std::find(words.begin(), own_end, "--json") != own_end) {
    Context context;
    context.wants_json = true;
    report(context, Error::make(Code::invalid_request, text));
  } else {
    std::fprintf(stderr, "sallyport: %s\n", text.c_str());
  }
  return static_cast<int>(Exit::usage);
}

}  // namespace

// Where somebody sees what there is, for one who named what is not: the warden does not know what they use to ask it.
static std::string where_to_look(const CLI::App& command, const Error& error) {
  if (error.message.find("see: ") != std::string::npos) return "";
  if (error.message.starts_with("no profile ")) return "; see: sallyport policy show";
  if (error.message.starts_with("no such container")) return "; see: sallyport container ls";
  const bool is_of_its_group = error.code == Code::not_found && error.message.find("no such ") != std::string::npos;
  for (const char* list : {"ls", "status"}) {
    const CLI::App* group = command.get_parent();
    if (is_of_its_group && find_command(*group, list) != nullptr) {
      return "; see: sallyport " + (group->get_parent() == nullptr ? "" : group->get_name() + " ") + list;
    }
  }
  return "";
}

void on_run(CLI::App* command, Context& context, std::function<Status()> work) {
  command->callback([command, &context, work = std::move(work)] {
    const Status status = work();
    if (status) return;
    Error error = status.error();
    error.message += where_to_look(*command, error);
    const Exit exit = report(context, error);
    if (context.exit_code == 0) context.exit_code = static_cast<int>(exit);
  });
}

static void add_other_commands(CLI::App& app, Context& context) {
  add_container_commands(app, context);
  add_pod_commands(app, context);
  add_schedule_commands(app, context);
  add_warden_commands(app, context);
  add_policy_commands(app, context);
  add_approval_commands(app, context);
  add_audit_commands(app, context);
  add_mcp_command(app, context);
  add_mailbox_commands(app, context);
  add_platform_commands(app, context);
  add_doctor_command(app, context);
  add_completion_command(app, context);
}

int run(int argc, char** argv, const std::string& version) {
  CLI::App app("One narrow, authenticated, audited door between a host and its sandboxes.", "sallyport");
  Context context;
  context.version = version;
  set_help(app);
  app.set_version_flag("--version", "sallyport " + version);
  app.add_flag("--json", context.wants_json, "Print JSON, for scripts");
  app.require_subcommand(1);
  app.fallthrough();
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  add_run_command(app, context);
  // A sandbox is what people wait for: no other command's options are made for it.
  if (words.empty() || words[0] != "run") add_other_commands(app, context);

  auto paths = os::paths_from_environment();
  if (!paths) return usage_error(app, paths.error().message, {});
  context.paths = std::move(*paths);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    std::printf("%s", app.help("", CLI::AppFormatMode::All).c_str());
    return 0;
  } catch (const CLI::CallForVersion& version_text) {
    std::printf("%s\n", version_text.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error.what(), words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sallyport: %s\n", error.what());
    return static_cast<int>(Exit::failed);
  }
  // What is left to take down is memory, which the kernel does faster; a sanitizer wants to see it done.
  if constexpr (!kIsSanitized) {
    std::fflush(nullptr);
    ::_exit(context.exit_code);
  }
  return context.exit_code;
}

}  // namespace sallyport::cli

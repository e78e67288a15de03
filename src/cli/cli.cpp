#include "cli/cli.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/sanitized.h"
#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/suggest.h"

namespace sallyport::cli {
namespace {

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

// As far as words are understood.
struct Reading {
  const CLI::App* app;
  std::string path = "sallyport", unknown_command = {}, unknown_option = {};
  std::string empty = {};  // the option or argument for which there is only an empty word
};

const CLI::Option* find_option(const CLI::App* app, const std::string& name) {
  const CLI::Option* found = nullptr;
  for (; app != nullptr && found == nullptr; app = app->get_parent()) found = app->get_option_no_throw(name);
  return found;
}

// The argument at this place; behind the last one nothing is ours any more.
const CLI::Option* find_argument(const CLI::App& app, std::size_t place) {
  const auto arguments = app.get_options([](const CLI::Option* option) { return option->get_positional(); });
  return place < arguments.size() ? arguments[place] : nullptr;
}

Reading read_words(const CLI::App& program, const std::vector<std::string>& words) {
  Reading reading{&program};
  std::size_t arguments = 0;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (word.starts_with('-') && word.size() > 1) {
      const std::string name = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
      const CLI::Option* option = find_option(reading.app, name);
      if (option == nullptr) {
        reading.unknown_option = name;
        return reading;
      }
      if (option->get_items_expected_max() == 0) continue;
      const bool is_apart = name.size() == word.size();
      if (is_apart) ++i;
      if (i < words.size() && (is_apart ? words[i].empty() : word.size() == name.size() + 1 && word.back() == '=')) {
        reading.empty = name;
        return reading;
      }
      continue;
    }
    if (commands_of(*reading.app).empty()) {
      const CLI::Option* argument = find_argument(*reading.app, arguments++);
      const bool is_theirs = argument != nullptr && argument->get_items_expected_max() > 1;
      if (is_theirs) return reading;
      if (!word.empty() || argument == nullptr) continue;
      reading.empty = argument->get_name();
      return reading;
    }
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

// Whether --json is among the words; those behind -- are somebody else's.
bool asks_for_json(const std::vector<std::string>& words) {
  const auto own_end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), own_end, "--json") != own_end;
}

int usage_error(const CLI::App& program, const std::string& problem, const std::vector<std::string>& words) {
  const auto [app, path, unknown, option, empty] = read_words(program, words);
  std::string text = problem, meant;
  if (!unknown.empty()) {
    text = "unknown command: " + unknown;
    meant = nearest_command(*app, path, unknown);
  } else if (!option.empty()) {
    text = "unknown option: " + option;
    for (const CLI::App* each = app; each != nullptr && meant.empty(); each = each->get_parent()) {
      const std::string name = nearest_option(*each, option);
      if (!name.empty()) meant = path + " " + name;
    }
  } else if (!empty.empty()) {
    text = empty + " is given an empty text";
  } else if (problem == "A subcommand is required") {  // the library's words
    text = "which command? One of:";
    for (const HelpEntry& command : commands_of(*app)) text += " " + command.name;
  }
  if (!meant.empty()) text += "\nDid you mean: " + meant;
  text += "\nSee: " + path + " --help";
  // The words were not understood, so what they ask for is looked up.
  if (asks_for_json(words)) {
    Context context;
    context.wants_json = true;
    report(context, Error::make(Code::invalid_request, text));
  } else {
    std::fprintf(stderr, "sallyport: %s\n", escape_text_for_display(text).c_str());
  }
  return static_cast<int>(Exit::usage);
}

void print_version(const Context& context) {
  print(context.wants_json ? wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("version", context.version).end_object();
  })
                           : "sallyport " + context.version);
}

// What people try first: `help`, `help COMMAND`, `version`. Hidden, because the page of help names the options.
void add_help_commands(CLI::App& app, Context& context) {
  auto* help = app.add_subcommand("help", "Show the help of a command");
  help->group("");
  const auto words = std::make_shared<std::vector<std::string>>();
  help->add_option("COMMAND", *words, "The command; without one: all of them");
  help->callback([&app, &context, words] {
    const Reading reading = read_words(app, *words);
    if (reading.unknown_command.empty()) {
      // Not app->help(), which would show that of the command that runs: this one.
      const std::string page = reading.app->get_formatter()->make_help(reading.app, "", CLI::AppFormatMode::Normal);
      std::printf("%s", page.c_str());
    } else {
      context.exit_code = usage_error(app, "", *words);
    }
  });
  auto* version = app.add_subcommand("version", "Show the version");
  version->group("");
  version->callback([&context] { print_version(context); });
}

}  // namespace

// Where somebody sees what there is, for one who named what is not: the warden does not know what they use to ask it.
static std::string where_to_look(const CLI::App& command, const Error& error) {
  if (error.message.find("see: ") != std::string::npos) return "";
  if (error.message.starts_with("no profile ")) return "; see: sallyport policy show";
  if (error.message.starts_with("no group ")) return "; see: sallyport group ls";
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

// The warden speaks of parameters, whoever typed the command of options: "params.config.name: ..." is "--name: ...".
static bool name_option(const CLI::App& command, Error& error) {
  const std::size_t end = error.message.starts_with("params.") ? error.message.find(':') : std::string::npos;
  if (end == std::string::npos) return false;
  const std::size_t dot = error.message.rfind('.', end);
  const std::string name = "--" + error.message.substr(dot + 1, end - dot - 1);
  if (command.get_option_no_throw(name) == nullptr) return false;
  error.message.replace(0, end, name);
  return true;
}

// Whoever starts something chooses its profile or group and its workspace: one that is not there was typed wrong.
static bool is_wrong_choice(const CLI::App& command, const Error& error) {
  const auto begins = [&](const char* words) { return error.message.starts_with(words); };
  return command.get_option_no_throw("--profile") != nullptr &&
         (begins("no profile ") || begins("no group ") || begins("the workspace ") || begins("a workspace "));
}

Error wrong_usage(Context& context, std::string message) {
  context.exit_code = static_cast<int>(Exit::usage);
  return Error::make(Code::invalid_params, std::move(message));
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  std::string normal = std::filesystem::absolute(path, ignored).lexically_normal().string();
  if (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

Status check_variables(Context& context, const std::vector<std::string>& items) {
  for (const std::string& item : items) {
    if (item.empty() || item.front() == '=') {
      return wrong_usage(
          context, "--env takes NAME=VALUE, or NAME to pass it on; '" + escape_for_display(item) + "' has no name");
    }
  }
  return ok();
}

Status check_command(Context& context, const std::vector<std::string>& words) {
  return words.empty() || !words.front().empty() ? ok() : Status(wrong_usage(context, "the command is empty"));
}

void on_run(CLI::App* command, Context& context, std::function<Status()> work) {
  command->callback([command, &context, work = std::move(work)] {
    if (!command->get_subcommands().empty()) return;  // the one below it was named
    const Status status = context.paths_fault ? Status(*context.paths_fault) : work();
    if (status) return;
    Error error = status.error();
    const bool is_typed_wrong = context.paths_fault || name_option(*command, error) || is_wrong_choice(*command, error);
    error.message += where_to_look(*command, error);
    const Exit exit = report(context, error);
    if (context.exit_code == 0) context.exit_code = static_cast<int>(is_typed_wrong ? Exit::usage : exit);
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
  add_help_commands(app, context);
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
  if (paths) {
    context.paths = std::move(*paths);
  } else {
    context.paths_fault = std::move(paths).error();
  }
  // A script's variable that was not set: what it was to say must not pass for not said.
  if (!read_words(app, words).empty.empty()) return usage_error(app, "", words);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
  } catch (const CLI::CallForAllHelp&) {
    std::printf("%s", app.help("", CLI::AppFormatMode::All).c_str());
  } catch (const CLI::CallForVersion&) {
    context.wants_json = asks_for_json(words);
    print_version(context);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error.what(), words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sallyport: %s\n", error.what());
    return static_cast<int>(Exit::failed);
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && context.exit_code == 0) {
    std::fprintf(stderr, "sallyport: the output cannot be written: %s\n", std::strerror(errno));
    context.exit_code = static_cast<int>(Exit::failed);
  }
  // As the command died: a shell that runs a script ends it at Ctrl-C only if it sees that.
  if (context.death != 0) {
    std::fflush(nullptr);
    ::signal(context.death, SIG_DFL);
    ::raise(context.death);
  }
  // What is left to take down is memory, which the kernel does faster; a sanitizer wants to see it done.
  if constexpr (!kIsSanitized) {
    std::fflush(nullptr);
    ::_exit(context.exit_code);
  }
  return context.exit_code;
}

}  // namespace sallyport::cli

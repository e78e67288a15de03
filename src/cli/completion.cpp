// Scripts for bash, zsh and fish, made from the tree of commands: they cannot lag behind it.
#include <array>
#include <functional>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/warden_link.h"
#include "pod/record.h"
#include "policy/profile.h"

namespace sallyport::cli {
namespace {

// Every command with the words that lead to it: "", "run", "container create".
using Visit = std::function<void(const std::string& path, const CLI::App& command)>;
void each_command(const CLI::App& app, const std::string& path, const Visit& visit) {
  visit(path, app);
  for (const HelpEntry& entry : commands_of(app)) {
    const auto found = app.get_subcommands([&](const CLI::App* each) { return each->get_name() == entry.name; });
    each_command(*found.front(), path.empty() ? entry.name : path + " " + entry.name, visit);
  }
}

// In single quotes, which all three shells read alike but for the quote itself.
std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}
std::string in_fish_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

// "PATH WORD" of every command, as the patterns of a case.
std::string step_patterns(const CLI::App& app) {
  std::string patterns;
  each_command(app, "", [&](const std::string& path, const CLI::App& command) {
    for (const HelpEntry& entry : commands_of(command)) {
      patterns += (patterns.empty() ? "" : " | ") + in_quotes(path + " " + entry.name);
    }
  });
  return patterns;
}

// What `sallyport names KIND` lists, for an option or a positional of this name; "": nothing.
std::string kind_of(const std::string& name) {
  if (name == "--profile") return "profiles";
  if (name == "--container" || name == "CONTAINER") return "containers";
  if (name == "ID") return "approvals";
  return name == "POD" ? "pods" : "";
}
constexpr std::array kKinds = {"profiles", "containers", "pods", "approvals"};

// The options that take a value of this kind.
std::string value_patterns(const CLI::App& app, const std::string& kind) {
  std::string patterns;
  each_command(app, "", [&](const std::string& path, const CLI::App& command) {
    for (const HelpEntry& option : options_of(command)) {
      if (option.value.empty() || kind_of(option.name) != kind) continue;
      patterns += (patterns.empty() ? "" : " | ") + in_quotes(path + " " + option.name);
    }
  });
  return patterns;
}

// The kind of a command's first positional.
std::string positional_kind(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) return kind_of(option->get_name(true));
  }
  return "";
}

std::vector<HelpEntry> entries_of(const CLI::App& command) {
  std::vector<HelpEntry> all = commands_of(command);
  for (const HelpEntry& option : options_of(command)) all.push_back(option);
  return all;
}

std::string bash_script(const CLI::App& app) {
  std::string script =
      "# bash completion for sallyport; made by: sallyport completion bash\n"
      "_sallyport() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} at= words= names= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
      "      mapfile -t COMPREPLY < <(compgen -c -f -- \"$cur\")\n"
      "      return\n"
      "    fi\n"
      "    case \"$at ${COMP_WORDS[i]}\" in\n"
      "      " +
      step_patterns(app) +
      ") at=\"${at:+$at }${COMP_WORDS[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at ${COMP_WORDS[COMP_CWORD - 1]}\" in\n";
  for (const std::string kind : kKinds) {
    const std::string patterns = value_patterns(app, kind);
    if (patterns.empty()) continue;
    script += "    " + patterns + ")\n      mapfile -t COMPREPLY < <(compgen -W \"$(\"${COMP_WORDS[0]}\" names " +
              kind + ")\" -- \"$cur\")\n      return ;;\n";
  }
  script += "    " + value_patterns(app, "") +
            ")\n"
            "      mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
            "      return ;;\n"
            "  esac\n"
            "  case \"$at\" in\n";
  each_command(app, "", [&](const std::string& path, const CLI::App& command) {
    std::string words;
    for (const HelpEntry& entry : entries_of(command)) words += (words.empty() ? "" : " ") + entry.name;
    const std::string kind = positional_kind(command);
    script += "    " + in_quotes(path) + ") words=" + in_quotes(words);
    if (!kind.empty()) script += " names=$(\"${COMP_WORDS[0]}\" names " + kind + ")";
    script += " ;;\n";
  });
  return script +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words $names\" -- \"$cur\")\n"
         "}\n"
         "complete -o default -F _sallyport sallyport\n";
}

std::string zsh_script(const CLI::App& app) {
  std::string script =
      "#compdef sallyport\n"
      "# zsh completion for sallyport; made by: sallyport completion zsh\n"
      "_sallyport() {\n"
      "  local at= i\n"
      "  local -a entries\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    if [[ ${words[i]} == -- ]]; then\n"
      "      _normal\n"
      "      return\n"
      "    fi\n"
      "    case \"$at ${words[i]}\" in\n"
      "      (" +
      step_patterns(app) +
      ") at=\"${at:+$at }${words[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at ${words[CURRENT - 1]}\" in\n";
  for (const std::string kind : kKinds) {
    const std::string patterns = value_patterns(app, kind);
    if (patterns.empty()) continue;
    script += "    (" + patterns + ")\n      entries=(${(f)\"$(${words[1]} names " + kind + ")\"})\n      _describe " +
              kind + " entries\n      return ;;\n";
  }
  script += "    (" + value_patterns(app, "") +
            ")\n"
            "      _files\n"
            "      return ;;\n"
            "  esac\n"
            "  case \"$at\" in\n";
  each_command(app, "", [&](const std::string& path, const CLI::App& command) {
    script += "    (" + in_quotes(path) + ") entries=(";
    for (const HelpEntry& entry : entries_of(command)) script += "\n      " + in_quotes(entry.name + ":" + entry.text);
    const std::string kind = positional_kind(command);
    if (!kind.empty()) script += "\n      ${(f)\"$(${words[1]} names " + kind + ")\"}";
    script += ") ;;\n";
  });
  return script +
         "  esac\n"
         "  _describe sallyport entries\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _sallyport ]; then _sallyport \"$@\"; else compdef _sallyport sallyport; fi\n";
}

std::string fish_names(const std::string& kind) {
  return kind.empty() ? "" : " -f -a " + in_fish_quotes("(sallyport names " + kind + ")");
}

std::string fish_script(const CLI::App& app) {
  std::string steps;
  std::string lines;
  each_command(app, "", [&](const std::string& path, const CLI::App& command) {
    const std::string when = " -n " + in_fish_quotes("__sallyport_at " + in_fish_quotes(path));
    for (const HelpEntry& entry : commands_of(command)) {
      steps += " " + in_fish_quotes(path + " " + entry.name);
      lines += "complete -c sallyport -f" + when + " -a " + entry.name + " -d " + in_fish_quotes(entry.text) + "\n";
    }
    for (const HelpEntry& option : options_of(command)) {
      const bool is_long = option.name.starts_with("--");
      lines += "complete -c sallyport" + when + (is_long ? " -l " : " -s ") + option.name.substr(is_long ? 2 : 1) +
               (option.value.empty() ? "" : " -r") + fish_names(kind_of(option.name)) + " -d " +
               in_fish_quotes(option.text) + "\n";
    }
    const std::string kind = positional_kind(command);
    if (!kind.empty()) lines += "complete -c sallyport" + when + fish_names(kind) + "\n";
  });
  return "# fish completion for sallyport; made by: sallyport completion fish\n"
         "function __sallyport_at\n"
         "    set -l at ''\n"
         "    for word in (commandline -opc)[2..-1]\n"
         "        if test \"$word\" = --\n"
         "            return 1\n"
         "        end\n"
         "        if contains -- \"$at $word\"" +
         steps +
         "\n"
         "            set at (string trim -- \"$at $word\")\n"
         "        end\n"
         "    end\n"
         "    test \"$at\" = \"$argv[1]\"\n"
         "end\n" +
         lines;
}

// Profiles and pods are files; the rest is asked for if a warden runs. None is started, and whatever goes wrong ends
// the list: somebody pressed a key, and asked nothing.
Status print_names(const Context& context, const std::string& kind) {
  if (kind == "profiles") {
    const auto profiles = policy::Profiles::load(context.paths.profiles_dir());
    if (!profiles) return ok();
    for (const auto& [name, profile] : profiles->all()) print(name);
  } else if (kind == "pods") {
    for (const auto& [name, seen] : pod::look_at_all(context.paths.state_dir + "/pods")) print(name);
  } else if (const auto client = connect_warden(context.paths)) {
    const bool is_approvals = kind == "approvals";
    const char* const key = is_approvals ? "id" : "container";
    const auto all = call_for_all(**client, is_approvals ? "approval.list" : "container.list", kind, key);
    if (!all) return ok();
    for (const wire::Value row : all->root().get(kind).items()) print(row.get(key).as_string().value_or(""));
  }
  return ok();
}

}  // namespace

void add_completion_command(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("completion", "Print a script that completes this program's commands");
  command->group("");  // for packagers and shell start-up files
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&app, shell] {
    const std::string script = *shell == "bash"  ? bash_script(app)
                               : *shell == "zsh" ? zsh_script(app)
                                                 : fish_script(app);
    std::fwrite(script.data(), 1, script.size(), stdout);
  });
  auto* names = app.add_subcommand("names", "Print the names that a completion script offers");
  names->group("");
  const auto kind = std::make_shared<std::string>();
  names->add_option("KIND", *kind, "profiles, containers, pods or approvals")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(kKinds.begin(), kKinds.end())));
  on_run(names, context, [&context, kind] { return print_names(context, *kind); });
}

}  // namespace sallyport::cli

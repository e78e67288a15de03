#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "cli/command.h"

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

// "did you mean" for an unknown first word.
std::string nearest_command(const CLI::App& app, const std::string& word) {
  std::string nearest;
  std::size_t best = 3;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::size_t distance = edit_distance(word, command->get_name());
    if (distance < best) {
      best = distance;
      nearest = command->get_name();
    }
  }
  return nearest;
}

int usage_error(const CLI::App& app, const std::string& problem, const std::string& word) {
  const std::string nearest = nearest_command(app, word);
  const bool is_unknown = !word.empty() && word[0] != '-' && nearest != word;
  std::fprintf(stderr, "sallyport: %s\n", is_unknown ? ("unknown command: " + word).c_str() : problem.c_str());
  if (is_unknown && !nearest.empty()) std::fprintf(stderr, "Did you mean: sallyport %s\n", nearest.c_str());
  std::fprintf(stderr, "See: sallyport --help\n");
  return static_cast<int>(Exit::usage);
}

}  // namespace

void on_run(CLI::App* command, Context& context, std::function<Status()> work) {
  command->callback([&context, work = std::move(work)] {
    const Status status = work();
    if (status) return;
    const Exit exit = report(context, status.error());
    if (context.exit_code == 0) context.exit_code = static_cast<int>(exit);
  });
}

int run(int argc, char** argv, const std::string& version) {
  CLI::App app("One narrow, authenticated, audited door between a host and its sandboxes.", "sallyport");
  Context context;
  context.version = version;
  app.set_version_flag("--version", "sallyport " + version);
  app.add_flag("--json", context.wants_json, "Print JSON, for scripts");
  app.require_subcommand(1);
  app.fallthrough();
  add_run_command(app, context);
  add_container_commands(app, context);
  add_warden_commands(app, context);
  add_policy_commands(app, context);
  add_approval_commands(app, context);
  add_audit_commands(app, context);
  add_platform_commands(app, context);
  add_doctor_command(app, context);

  const std::string word = argc > 1 ? argv[1] : "";
  auto paths = os::paths_from_environment();
  if (!paths) return usage_error(app, paths.error().message, "");
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
    return usage_error(app, error.what(), word);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sallyport: %s\n", error.what());
    return static_cast<int>(Exit::failed);
  }
  return context.exit_code;
}

}  // namespace sallyport::cli

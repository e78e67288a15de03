// sallyport doctor: what this machine offers, what it means, and how to mend what is missing.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/doctor.h"
#include "cli/warden_link.h"
#include "os/files.h"
#include "os/paths.h"
#include "os/spawn.h"

extern char** environ;

namespace sallyport::cli {
namespace {

// Ours alone, and there is room for a file: what a warden needs.
Finding check_directory(const char* name, const std::string& path, const char* meaning, const std::string& variable) {
  const auto directory = os::open_private_directory(path);
  if (!directory) {
    return {name, Health::bad, directory.error().message, meaning,
            "no warden starts with it; another can be named by " + variable};
  }
  const std::string probe = path + "/.doctor";
  const Status written = os::write_private_file(probe, std::string(4096, '\n'));
  ::unlink(probe.c_str());
  if (written) return {name, Health::good, path, meaning, ""};
  const std::string said = written.error().describe();
  const bool is_full = said.find(std::strerror(ENOSPC)) != std::string::npos;
  return {name, Health::bad, path + ": " + said, meaning,
          std::string("nothing durable works before it can be written; ") + (is_full ? "free some room, or " : "") +
              "name another by " + variable};
}

// What a program of ours says on stderr, if it fails.
Status run_quietly(const std::string& name, const std::string& option) {
  TRY(const std::string program, os::sibling_program(name));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("cannot make a pipe", errno);
  const UniqueFd read_end{ends[0]};
  UniqueFd write_end{ends[1]};
  os::SpawnPlan plan(os::SpawnPlan::Place::own_group);
  plan.give(write_end.get(), STDERR_FILENO);
  TRY(const pid_t pid, plan.spawn(program, {program, option}, environ));
  write_end.reset();
  std::string said;
  std::array<char, 1024> piece{};
  for (;;) {
    const ssize_t count = ::read(read_end.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    said.append(piece.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok();
  while (said.ends_with('\n')) said.pop_back();
  return Error::make(Code::invalid_params, said.empty() ? name + " does not run" : said);
}

Finding check_configuration(const os::Paths& paths) {
  const char* meaning = "what the warden is told: rules, profiles, signals, limits";
  if (const Status checked = run_quietly("sallyportd", "--check-config"); !checked) {
    return {"configuration", Health::bad, checked.error().message, meaning,
            "no warden starts with it, and one that runs keeps what it had; another can be named by SALLYPORT_CONFIG"};
  }
  const bool is_there = ::access(paths.config_file.c_str(), F_OK) == 0;
  return {"configuration", Health::good,
          is_there ? paths.config_file : "the defaults; " + paths.config_file + " would be read", meaning, ""};
}

Finding check_warden(const os::Paths& paths) {
  const char* meaning = "the daemon that decides; `sallyport run` does without, and what needs it starts it";
  const auto client = connect_warden(paths);
  if (!client && client.error().code == Code::unavailable) {
    return {"warden", Health::weak, "not running", meaning, "start it with: sallyport up"};
  }
  if (!client) {
    return {"warden", Health::bad, client.error().describe(), meaning,
            "it is not spoken to; end what listens there, or name another place by SALLYPORT_RUNTIME_DIR"};
  }
  if (const auto answer = (*client)->call("test.ping"); !answer) {
    return {"warden", Health::bad, answer.error().message, meaning,
            "see " + paths.log_file() + ", then: sallyport down, sallyport up"};
  }
  return {"warden", Health::good, "answers at " + paths.control_socket(), meaning, ""};
}

std::string_view to_string(Health health) {
  return health == Health::good ? "good" : health == Health::weak ? "weak" : "bad";
}

void show(const Context& context, const std::vector<Finding>& findings) {
  if (context.wants_json) {
    print(wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().key("checks").begin_array();
      for (const Finding& finding : findings) {
        json.begin_object().member("name", finding.name).member("health", to_string(finding.health));
        json.member("found", finding.found).member("meaning", finding.meaning);
        json.member("advice", finding.advice).end_object();
      }
      json.end_array().end_object();
    }));
    return;
  }
  for (const Finding& finding : findings) {
    const std::string mark = finding.health == Health::good   ? green("ok  ")
                             : finding.health == Health::weak ? yellow("weak")
                                                              : red("BAD ");
    print(mark + "  " + finding.name + std::string(20 - std::min<std::size_t>(finding.name.size(), 19), ' ') +
          finding.found);
    print(dim("      " + finding.meaning));
    if (!finding.advice.empty()) print("      to mend it: " + finding.advice);
  }
}

}  // namespace

void add_doctor_command(CLI::App& app, Context& context) {
  app.add_subcommand("doctor", "Check what this machine offers, and how to mend what is missing")->callback([&context] {
    std::vector<Finding> findings = check_machine();
    if (context.paths_fault) {
      findings.push_back({"places", Health::bad, context.paths_fault->message, "where everything is kept",
                          "set the variable that it names, or unset it; nothing else can be checked before"});
      show(context, findings);
      context.exit_code = static_cast<int>(Exit::failed);
      return;
    }
    findings.push_back(check_directory("runtime directory", context.paths.runtime_dir,
                                       "where the sockets of the doors are", "SALLYPORT_RUNTIME_DIR"));
    findings.push_back(check_directory("state directory", context.paths.state_dir,
                                       "what must last: the audit log, mailboxes, pods, the warden's log",
                                       "SALLYPORT_STATE_DIR"));
    findings.push_back(check_configuration(context.paths));
    findings.push_back(check_warden(context.paths));
    show(context, findings);
    for (const Finding& finding : findings) {
      if (finding.health == Health::bad) context.exit_code = static_cast<int>(Exit::failed);
    }
  });
}

}  // namespace sallyport::cli

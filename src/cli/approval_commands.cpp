// sallyport approvals [ls | show | approve | deny]
#include <termios.h>
#include <unistd.h>

#include <iostream>
#include <sstream>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"
#include "mcp/exec_tool.h"

namespace sallyport::cli {
namespace {

constexpr std::size_t kShownPayload = 60;  // bytes of it in a list's row

std::string text(wire::Value value) { return std::string(value.as_string().value_or("")); }
// What others wrote, safe on a terminal.
std::string shown(wire::Value value) { return escape_for_display(value.as_string().value_or("")); }

std::string time_left(wire::Value question) {
  const std::int64_t seconds = (question.get("expires_at").as_int().value_or(0) - SystemClock().unix_millis()) / 1000;
  if (seconds <= 0) return "expired";
  if (seconds < 120) return std::to_string(seconds) + " s left";
  if (seconds < 7200) return std::to_string(seconds / 60) + " min left";
  return std::to_string(seconds / 3600) + " h left";
}

std::string requester(wire::Value question) {
  const std::string container = shown(question.get("container"));
  return container.empty() ? "host" : "container/" + container;
}

// Of the MCP bridge: what its shell will be given.
std::optional<std::string> command_of(wire::Value question) {
  if (text(question.get("signal")) != "container.exec") return std::nullopt;
  return mcp::command_of(question.get("payload"));
}

void print_row(wire::Value question) {
  const auto command = command_of(question);
  // Compact JSON has neither line ends nor tabs of its own: quotes may stay as they are.
  std::string payload =
      command ? escape_for_display(*command) : escape_text_for_display(question.get("payload").to_json());
  if (payload.size() > kShownPayload) {
    std::size_t end = kShownPayload - 3;
    while (end > 0 && (static_cast<unsigned char>(payload[end]) & 0xc0U) == 0x80U) --end;  // inside a character
    payload = payload.substr(0, end) + "...";
  }
  print(shown(question.get("id")) + "  " + shown(question.get("signal")) + "  " + requester(question) + "  " +
        time_left(question) + dim("  " + payload));
}

// Everything that will run, with nothing hidden.
void print_question(wire::Value question) {
  print("question   " + shown(question.get("id")) + ", " + shown(question.get("state")) +
        (text(question.get("state")) == "open" ? ", " + time_left(question) : ""));
  print("asks       " + requester(question) + ", request " + shown(question.get("request_id")));
  print("wants      " + yellow(shown(question.get("signal"))));
  print("rule       " + shown(question.get("rule")));
  print("sha256     " + shown(question.get("sha256")));
  if (text(question.get("state")) != "open") {
    print("answered   by " + shown(question.get("by")) + "  " + shown(question.get("why")));
  }
  if (const wire::Value runs = question.get("runs")) {
    std::string command;
    for (const wire::Value argument : runs.items())
      command += (command.empty() ? "\"" : " \"") + shown(argument) + "\"";
    print("runs       " + command);
  }
  if (const auto command = command_of(question)) {
    print("command");
    // Behind the margin: no line of it looks like one of ours.
    std::istringstream lines(escape_text_for_display(*command));
    for (std::string line; std::getline(lines, line);) print("  | " + line);
  }
  print("payload");
  print(escape_text_for_display(text(question.get("pretty"))));
  if (!question.get("diff")) return;
  print(yellow("changed by the deputy"));
  print(escape_text_for_display(text(question.get("diff"))));
}

std::string named(const std::string& id, const std::string& why = {}, const std::string& sha256 = {}) {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("id", id);
    if (!why.empty()) json.member("why", why);
    if (!sha256.empty()) json.member("sha256", sha256);
    json.end_object();
  });
}

Status list(const Context& context) {
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const wire::Document all, call_for_all(*warden.client, "approval.list", "approvals", "id"));
  if (context.wants_json) {
    print(all.root().to_json());
    return ok();
  }
  const wire::Value questions = all.root().get("approvals");
  if (questions.size() == 0) print("nothing waits for approval");
  for (const wire::Value question : questions.items()) print_row(question);
  return ok();
}

Status show(const Context& context, const std::string& id) {
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const Answer answer, warden.client->call("approval.show", named(id)));
  if (context.wants_json) {
    print(answer.json());
  } else {
    print_question(answer.value());
  }
  return ok();
}

struct AnswerArguments {
  std::string id, why, sha256;
};

Status answer(const Context& context, const AnswerArguments& arguments, const char* method) {
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const Answer answered, warden.client->call(method, named(arguments.id, arguments.why, arguments.sha256)));
  print(context.wants_json ? answered.json()
                           : shown(answered.value().get("id")) + " " + shown(answered.value().get("state")));
  return ok();
}

// One after the other, each shown in full before it is asked about. The answer names the bytes that were shown.
Status go_through(const Context& context) {
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const wire::Document all, call_for_all(*warden.client, "approval.list", "approvals", "id"));
  const wire::Value questions = all.root().get("approvals");
  if (questions.size() == 0) print("nothing waits for approval");
  for (const wire::Value row : questions.items()) {
    const std::string id = text(row.get("id"));
    const auto full = warden.client->call("approval.show", named(id));
    if (!full && full.error().code == Code::not_found) continue;  // answered meanwhile, and forgotten
    if (!full) return full.error();
    print_question(full->value());
    std::string line;
    // Whatever else is said is no answer: the next one must not land on another question.
    do {
      // Nor what was typed before this one was shown.
      ::tcflush(STDIN_FILENO, TCIFLUSH);
      std::cout << "approve (a), deny (d), skip (enter), quit (q)? " << std::flush;
      if (!std::getline(std::cin, line)) print("");
      if (!std::cin || line == "q") return ok();
    } while (!line.empty() && line != "a" && line != "d");
    if (line.empty()) continue;
    std::string why;
    if (line == "d") {
      std::cout << "why? " << std::flush;
      std::getline(std::cin, why);
    }
    const auto answered = warden.client->call(line == "a" ? "approval.approve" : "approval.deny",
                                              named(id, why, text(full->value().get("sha256"))));
    if (!answered && answered.error().code == Code::unavailable) return answered.error();
    // Somebody else may have been quicker; go on with the next.
    print(answered ? shown(answered->value().get("state")) : red(escape_for_display(answered.error().message)));
  }
  return ok();
}

}  // namespace

void add_approval_commands(CLI::App& app, Context& context) {
  auto* group = app.add_subcommand("approvals", "See and answer what waits for a human; on a terminal one by one");
  group->require_subcommand(0, 1);
  on_run(group, context, [&context] {
    const bool is_interactive = is_terminal() && ::isatty(STDIN_FILENO) != 0 && !context.wants_json;
    return is_interactive ? go_through(context) : list(context);
  });
  on_run(group->add_subcommand("ls", "List what waits"), context, [&context] { return list(context); });
  const auto arguments = std::make_shared<AnswerArguments>();
  auto* show_command = group->add_subcommand("show", "Show everything that will run if it is approved");
  show_command->add_option("ID", arguments->id, "The question")->required();
  on_run(show_command, context, [&context, arguments] { return show(context, arguments->id); });
  auto* approve_command = group->add_subcommand("approve", "Say yes");
  approve_command->add_option("ID", arguments->id, "The question")->required();
  approve_command->add_option("--sha256", arguments->sha256, "Only if this is the payload's hash, as show tells it")
      ->type_name("HASH");
  on_run(approve_command, context, [&context, arguments] { return answer(context, *arguments, "approval.approve"); });
  auto* deny_command = group->add_subcommand("deny", "Say no");
  deny_command->add_option("ID", arguments->id, "The question")->required();
  deny_command->add_option("--why", arguments->why, "For the requester")->type_name("REASON");
  on_run(deny_command, context, [&context, arguments] { return answer(context, *arguments, "approval.deny"); });
}

}  // namespace sallyport::cli

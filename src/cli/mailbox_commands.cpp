// sallyport mailbox status | resolve
#include <ctime>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"

namespace sallyport::cli {
namespace {

std::string text(wire::Value value) { return std::string(value.as_string().value_or("")); }

std::string when(wire::Value milliseconds) {
  const std::time_t seconds = milliseconds.as_int().value_or(0) / 1000;
  std::tm local{};
  char out[32] = "";
  ::localtime_r(&seconds, &local);
  std::strftime(out, sizeof out, "%F %T", &local);
  return out;
}

std::string count(wire::Value number) { return std::to_string(number.as_int().value_or(0)); }

void print_mailbox(wire::Value mailbox) {
  const bool is_good = text(mailbox.get("state")) == "ok";
  print(text(mailbox.get("container")) + "  " + (is_good ? green("ok") : red("faulted")) + "  accepted " +
        count(mailbox.get("accepted")) + ", refused " + count(mailbox.get("refused")) + ", replies " +
        count(mailbox.get("replies")));
  if (!is_good) print("  " + text(mailbox.get("why")));
  if (!mailbox.get("watched").as_bool().value_or(false))
    print(yellow("  not watched by the kernel: read by the clock"));
  for (const wire::Value request : mailbox.get("pending").items()) {
    print("  " + yellow(text(request.get("state"))) + "  " + text(request.get("signal")) + "  " +
          text(request.get("request_id")) + "  since " + when(request.get("since")));
  }
  for (const wire::Value refused : mailbox.get("quarantine").items()) {
    print("  " + red("refused") + "  " + when(refused.get("time")) + "  " + text(refused.get("name")) + "  " +
          text(refused.get("code")) + ": " + escape_for_display(text(refused.get("reason"))));
  }
}

Status show(const Context& context, wire::Value status) {
  if (context.wants_json) {
    print(status.to_json());
    return ok();
  }
  const wire::Value mailboxes = status.get("mailboxes");
  if (mailboxes.size() == 0) print("there are no containers, and so no mailboxes");
  for (const wire::Value mailbox : mailboxes.items()) print_mailbox(mailbox);
  return ok();
}

Status status(const Context& context, const std::string& container) {
  TRY(const Started warden, ensure_warden(context.paths));
  if (container.empty()) {
    TRY(const wire::Document all, call_for_all(*warden.client, "mailbox.status", "mailboxes", "container"));
    return show(context, all.root());
  }
  TRY(const Answer answer, warden.client->call("mailbox.status", wire::to_json([&](wire::JsonWriter& json) {
                                                 json.begin_object().member("container", container).end_object();
                                               })));
  return show(context, answer.value());
}

struct ResolveArguments {
  std::string container, request, outcome;
};

Status resolve(const Context& context, const ResolveArguments& arguments) {
  TRY(const Started warden, ensure_warden(context.paths));
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object()
        .member("container", arguments.container)
        .member("request_id", arguments.request)
        .member("outcome", arguments.outcome)
        .end_object();
  });
  TRY(const Answer answer, warden.client->call("mailbox.resolve", params));
  print(context.wants_json ? answer.json() : arguments.request + " is " + arguments.outcome);
  return ok();
}

}  // namespace

void add_mailbox_commands(CLI::App& app, Context& context) {
  CLI::App* mailbox = app.add_subcommand("mailbox", "What containers raised through their mailboxes");
  mailbox->require_subcommand(1);

  CLI::App* show = mailbox->add_subcommand("status", "Requests that wait, and what was refused with the reasons");
  const auto container = std::make_shared<std::string>();
  show->add_option("CONTAINER", *container, "Only this container's");
  on_run(show, context, [&context, container] { return status(context, *container); });

  CLI::App* settle = mailbox->add_subcommand("resolve", "Say what came of a request whose action a crash cut short");
  const auto arguments = std::make_shared<ResolveArguments>();
  settle->add_option("CONTAINER", arguments->container, "Whose it is")->required();
  settle->add_option("REQUEST", arguments->request, "Its id, as status shows it")->required();
  settle->add_option("OUTCOME", arguments->outcome, "done or failed")
      ->required()
      ->check(CLI::IsMember({"done", "failed"}));
  on_run(settle, context, [&context, arguments] { return resolve(context, *arguments); });
}

}  // namespace sallyport::cli

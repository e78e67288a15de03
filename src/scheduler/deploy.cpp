#include "scheduler/program.h"
#include "scheduler/signals.h"
#include "scheduler/template.h"

namespace sallyport::scheduler {
namespace {

constexpr const char* kGit = "/usr/bin/git";
constexpr Millis kGitTimeout{30'000};

bool is_commit_id(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// One is meant when there is but one.
Result<Deployment> find_deployment(const Deployments& deployments, wire::Value name) {
  if (!name && deployments.size() == 1) return deployments.begin()->second;
  const auto found = deployments.find(name.as_string().value_or(""));
  if (found != deployments.end()) return found->second;
  return Error::make(Code::not_found, deployments.empty() ? "the host deploys nothing: there is no [deploy.NAME]"
                                                          : "'repository' names nothing that the host deploys");
}

// Asks git whether the commit is there, with nothing of our environment, no hook, no replacement, and no way to
// fetch what is missing: older versions do not know GIT_NO_LAZY_FETCH, and what a repository's own configuration says
// about a protocol comes before protocol.allow, but not before GIT_ALLOW_PROTOCOL.
Program commit_check(const Deployment& deployment, const std::string& commit) {
  return {.arguments = {kGit, "--no-replace-objects", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", "-C",
                        deployment.repository, "cat-file", "-e", commit + "^{commit}"},
          .environment = {"PATH=/usr/bin:/bin", "HOME=/nonexistent", "LANG=C", "GIT_CONFIG_NOSYSTEM=1",
                          "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
                          "GIT_ALLOW_PROTOCOL="},
          .timeout = kGitTimeout};
}

Program deploy_program(const Deployment& deployment, const std::string& commit,
                       const containers::Container& container) {
  const Placeholders values = {{"commit", commit},
                               {"repository", deployment.repository},
                               {"name", deployment.name},
                               {"container", container.id},
                               {"group", container.config.group}};
  return {.arguments = fill_template(deployment.command, values),
          .environment = plain_environment(),
          .directory = deployment.repository,
          .timeout = deployment.timeout};
}

// What is asked for, if it could be done at all.
struct Order {
  std::shared_ptr<containers::Container> container;
  Deployment deployment;
  std::string commit, prompt;
};

Result<Order> read_order(SignalHost& host, const mailbox::Raised& raised) {
  Order order;
  TRY(order.container, sender_of(host, raised));
  TRY(const wire::Document document, payload_of(raised));
  order.commit = document.root().get("commit").as_string().value_or("");
  order.prompt = document.root().get("resume_prompt").as_string().value_or("");
  if (!is_commit_id(order.commit)) {
    return Error::invalid_param("payload.commit", "must be a full commit id: 40 or 64 of 0-9 a-f");
  }
  TRY(order.deployment, find_deployment(host.deployments, document.root().get("repository")));
  const policy::Profile* profile = host.profiles.find(order.container->config.profile);
  if (!order.prompt.empty() && (profile == nullptr || profile->agent.empty())) {
    return Error::make(Code::conflict, "the profile has no agent command, so nothing could resume");
  }
  return order;
}

}  // namespace

Status check_deploy(SignalHost& host, const mailbox::Raised& raised) {
  TRY(read_order(host, raised));
  return ok();
}

std::vector<std::string> deploy_command(SignalHost& host, const mailbox::Raised& raised) {
  const auto order = read_order(host, raised);
  if (!order) return {};
  return deploy_program(order->deployment, order->commit, *order->container).arguments;
}

Task<Result<std::string>> deploy(SignalHost& host, mailbox::Raised raised) {
  CO_TRY(const Order order, read_order(host, raised));
  const auto& [container, deployment, commit, prompt] = order;
  Program check = commit_check(deployment, commit);
  CO_TRY(const ProgramEnd checked, co_await run_program(host.loop, std::move(check), host.programs_dir));
  if (!checked.is_good()) {
    co_return Error::make(Code::not_found, "the repository has no such commit", std::string(checked.last_words()));
  }
  Program command = deploy_program(deployment, commit, *container);
  CO_TRY(const ProgramEnd end, co_await run_program(host.loop, std::move(command), host.programs_dir));
  // What the command said is the host's business; the container learns how it ended.
  host.publish("deploy.finished", wire::to_json([&](wire::JsonWriter& json) {
                 json.begin_object().member("container", container->id).member("name", deployment.name);
                 json.member("commit", commit).member("exit_code", end.exit_code());
                 json.member("stdout", end.out.tail()).member("stderr", end.err.tail()).end_object();
               }));
  if (!end.is_good()) {
    Error error = end.was_over_time ? Error::make(Code::timeout, "the deploy command took too long")
                                    : Error::make(Code::io_error, "the deploy command failed");
    error.details_json = wire::to_json(
        [&](wire::JsonWriter& json) { json.begin_object().member("exit_code", end.exit_code()).end_object(); });
    co_return error;
  }
  std::string task;
  if (!prompt.empty()) {
    NewTask wanted;
    wanted.key = raised.key + "/resume";
    wanted.prompt = prompt;
    wanted.runs_now = true;
    const auto resumed = co_await host.scheduler.add(*container, std::move(wanted));
    // Deployed is deployed: that nobody resumes is part of the answer.
    task = resumed ? resumed->id : "";
    if (!resumed) host.log.warn("cannot resume after a deploy", {{"error", resumed.error().describe()}});
  }
  co_return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("name", deployment.name).member("commit", commit).member("exit_code", 0);
    json.key("resume_task");
    task.empty() ? json.null() : json.value(task);
    json.end_object();
  });
}

}  // namespace sallyport::scheduler

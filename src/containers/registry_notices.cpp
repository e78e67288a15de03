// What the launcher says of containers, and how they end.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "containers/registry.h"

namespace sallyport::containers {

void Registry::on_notice(sandbox::FromLauncher notice, std::vector<UniqueFd> fds) {
  if (auto* made_up = std::get_if<sandbox::MadeUp>(&notice)) return on_made_up(*made_up);
  if (is_closed_ && !std::holds_alternative<sandbox::Ended>(notice)) return;
  const sandbox::Handle handle = std::visit([](const auto& message) { return message.container; }, notice);
  if (const auto container = by_handle(handle)) {
    std::visit(
        [&](auto& message) {
          if constexpr (!std::is_same_v<decltype(message), sandbox::MadeUp&>) on(container, message, fds);
        },
        notice);
  }
}

void Registry::on(const std::shared_ptr<Container>& container, sandbox::Launched& launched,
                  std::vector<UniqueFd>& fds) {
  container->pid = launched.pid;
  container->protections_json = std::move(launched.protections_json);
  std::size_t next = 0;
  if (launched.has_pid_namespace && next < fds.size()) {
    container->held_namespace = std::move(fds[next++]);
    if (const auto place = os::namespace_id(container->held_namespace.get())) container->pid_namespace = *place;
  }
  if (launched.has_proxy_listener && next < fds.size()) container->proxy_listener = std::move(fds[next]);
  container->state = State::running;
  Status opened = open_door(*container);
  if (!opened) [[maybe_unused]]
    const Status killed = launcher_->send(sandbox::KillRequest{launched.container});
  settle_launch(launched.container, std::move(opened));
}

void Registry::on(const std::shared_ptr<Container>& container, sandbox::LaunchFailed& failed, std::vector<UniqueFd>&) {
  Error error =
      Error::make(code_from_string(failed.code).value_or(Code::internal_error), failed.message, failed.detail);
  error.details_json = failed.details_json;
  if (failed.job == 0) return settle_launch(failed.container, error);
  if (const auto node = container->jobs.extract(failed.job); !node.empty()) node.mapped()->started.resolve(error);
}

void Registry::on(const std::shared_ptr<Container>& container, sandbox::JobStarted& started, std::vector<UniqueFd>&) {
  const auto found = container->jobs.find(started.job);
  if (found == container->jobs.end()) return;
  const auto job = found->second;
  job->started.resolve(ok());
}

void Registry::on(const std::shared_ptr<Container>& container, sandbox::JobExited& exited, std::vector<UniqueFd>&) {
  container->last_activity = clock_.steady();
  if (exited.job == 0) {
    container->wait_status = exited.wait_status;
  } else if (const auto node = container->jobs.extract(exited.job); !node.empty()) {
    node.mapped()->exited.resolve(exited.wait_status);
  }
}

void Registry::on(const std::shared_ptr<Container>& container, sandbox::Violated& violated, std::vector<UniqueFd>&) {
  report(*container, {.operation = violated.operation, .target = violated.target, .rule = violated.rule});
}

void Registry::report(Container& container, const sandbox::Violation& violation) {
  container.violations += violation.count;
  hooks_.on_incident({.container = container.id,
                      .event = "container.violation",
                      .code = Code::policy_denied,
                      .what = "seccomp, " + violation.rule + ": " + violation.operation +
                              (violation.target.empty() ? "" : " " + violation.target) +
                              (violation.count > 1 ? " (" + std::to_string(violation.count) + " times)" : "")});
  hooks_.on_event("container.violation", wire::to_json([&](wire::JsonWriter& json) {
                    json.begin_object()
                        .member("container", container.id)
                        .member("layer", "seccomp")
                        .member("operation", violation.operation)
                        .member("target", violation.target)
                        .member("rule", violation.rule)
                        .member("time", clock_.unix_millis())
                        .end_object();
                  }));
}

void Registry::report(const std::string& id, const std::vector<std::string>& findings) {
  if (findings.empty()) return;
  if (const auto container = find(id)) {
    container->reports.insert(container->reports.end(), findings.begin(), findings.end());
    save(*container);
  }
  // That it is kept is not enough: many a container is forgotten as soon as it is over.
  for (const std::string& what : findings) {
    sessions_.log().warn("found at the end of a sandbox", {{"container", id}, {"report", what}});
    hooks_.on_incident({.container = id, .event = "container.finding", .code = std::nullopt, .what = what});
    hooks_.on_event("container.finding", wire::to_json([&](wire::JsonWriter& json) {
                      json.begin_object().member("container", id).member("report", what);
                      json.member("time", clock_.unix_millis()).end_object();
                    }));
  }
}

void Registry::on(const std::shared_ptr<Container>& container, sandbox::Ended& ended, std::vector<UniqueFd>&) {
  container->was_over_memory = ended.was_over_memory;
  container->was_over_time = ended.was_over_time;
  report(container->id, ended.reports);
  // Ended by the warden's own end: its record says so to the next one.
  if (is_closed_) return save(*container);
  end(container, State::exited);
}

void Registry::make_up_scans() {
  const Status asked = launcher_->send(sandbox::MakeUpRequest{0, directories_.scans});
  if (!asked) sessions_.log().error("cannot make up for scans", {{"error", asked.error().describe()}});
}

// Whoever supervised an adopted one may have been killed. Its session ends before all of it has, and until then it
// holds its record as if it lived. One that does live on has no need of us, and is not waited for without end.
Fire Registry::make_up_scans_after(UniqueFd maker) {
  constexpr Millis kTimeToDie{10'000};
  auto watch = ipc::Watch::open(sessions_.loop(), std::move(maker));
  if (watch) {
    const auto late = sessions_.loop().after(kTimeToDie, [&watch] { (*watch)->cancel(); });
    co_await (*watch)->readable();
    sessions_.loop().cancel(late);
  }
  if (!is_closed_) make_up_scans();
}

void Registry::on_made_up(sandbox::MadeUp& made_up) { report(made_up.name, made_up.reports); }

void Registry::settle_launch(sandbox::Handle handle, Status status) {
  const auto found = launching_.find(handle);
  if (found == launching_.end()) return;
  const auto waiter = found->second;
  waiter->resolve(std::move(status));
}

void Registry::on_launcher_lost() {
  fail_launches(Error::make(Code::unavailable, "the launcher died; try again"));
  std::vector<std::shared_ptr<Container>> running;
  for (const auto& [id, container] : containers_) {
    if (container->handle != 0 && !is_over(container->state)) running.push_back(container);
  }
  for (const auto& container : running) end(container, State::lost);
  make_up_scans();
}

void Registry::fail_launches(const Error& error) {
  for (const auto& [handle, waiter] : std::map(launching_)) waiter->resolve(error);
}

void Registry::end_jobs(Container& container, const Error& error) {
  for (const auto& [number, job] : std::exchange(container.jobs, {})) {
    job->started.resolve(error);
    job->exited.resolve(SIGKILL);
  }
}

void Registry::end(const std::shared_ptr<Container>& container, State state) {
  container->state = state;
  container->ended_unix_ms = clock_.unix_millis();
  container->handle = 0;
  container->pid_namespace = {};
  UniqueFd maker = std::move(container->maker);
  for (UniqueFd* fd : {&container->held_namespace, &container->process}) fd->reset();
  container->proxy_listener.reset();
  container->listener.reset();
  container->listening.reset();
  end_jobs(*container, Error::make(Code::unavailable, "the container ended"));
  std::error_code ignored;
  std::filesystem::remove_all(container->door_dir, ignored);
  const Incident ended = end_of(*container);
  publish(ended.event, *container);
  hooks_.on_incident(ended);
  save(*container);
  if (maker && !is_closed_) make_up_scans_after(std::move(maker));
  for (const auto& [number, work] : std::exchange(container->on_end, {})) work();
}

void Registry::watch_idle(const std::shared_ptr<Container>& container) {
  if (container->idle_limit.count() == 0 || is_over(container->state)) return;
  const bool is_used = container->is_used && container->is_used();
  if (hooks_.has_asked(container->id) || is_used) container->last_activity = clock_.steady();
  const auto quiet = std::chrono::duration_cast<Millis>(clock_.steady() - container->last_activity);
  const bool has_jobs = std::any_of(container->jobs.begin(), container->jobs.end(),
                                    [](const auto& entry) { return !entry.second->is_worker; });
  if (quiet >= container->idle_limit && !has_jobs) {
    container->was_idle = true;
    return stop(container, Millis(0));
  }
  const Millis next = has_jobs ? container->idle_limit : std::max(Millis(10), container->idle_limit - quiet);
  sessions_.loop().after(next, [this, weak = std::weak_ptr(container)] {
    if (const auto still = weak.lock()) watch_idle(still);
  });
}

Incident Registry::end_of(const Container& container) {
  Incident ended{.container = container.id, .event = "container.exited", .code = std::nullopt, .what = {}};
  if (container.state == State::lost) {
    ended.event = "container.lost";
    ended.code = Code::unavailable;
    ended.what = "it ended with its launcher or with an earlier warden";
  } else if (container.state == State::failed) {
    ended.code = Code::unavailable;
    ended.what = "it never ran: " + container.failure;
  } else if (container.was_over_memory || container.was_over_time) {
    ended.code = Code::quota_exceeded;
    ended.what = container.was_over_memory ? "killed above its limit of memory" : "killed at the end of its time";
  } else if (container.was_idle) {
    ended.code = Code::timeout;
    ended.what = "stopped after idling for too long";
  } else if (container.wait_status && WIFEXITED(*container.wait_status)) {
    ended.what = "exit code " + std::to_string(WEXITSTATUS(*container.wait_status));
  } else if (container.wait_status && WIFSIGNALED(*container.wait_status)) {
    ended.what = "signal " + std::to_string(WTERMSIG(*container.wait_status));
  } else {
    ended.what = "stopped";
  }
  return ended;
}

}  // namespace sallyport::containers

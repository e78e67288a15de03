#include "containers/cells.h"

#include "containers/launch_spec.h"

namespace sallyport::containers {
namespace {

constexpr std::uint32_t kJob = 1;

Result<sandbox::Spec> make_spec(const Cells::Command& command, sandbox::Handle handle) {
  sandbox::Spec spec;
  spec.name = "cell-" + std::to_string(handle);
  spec.read = {"/usr", "/etc", "/opt"};
  spec.read.insert(spec.read.end(), command.readable.begin(), command.readable.end());
  spec.meant = command.readable;  // the host's own configuration names it
  spec.deny = system_secrets();
  spec.exec = {"/usr", "/opt", command.argv.front()};
  spec.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",        "HOME=/tmp", "GIT_CONFIG_NOSYSTEM=1",
                      "GIT_CONFIG_GLOBAL=/dev/null",       "GIT_OPTIONAL_LOCKS=0"};
  spec.limits.memory_bytes = 1ULL << 30;
  spec.limits.processes = 64;
  spec.limits.scratch_bytes = 64ULL << 20;
  spec.limits.file_bytes = 64ULL << 20;
  spec.limits.duration = command.lifetime;
  spec.report_violations = false;
  if (command.on_proxy_listener) TRY(add_proxy(spec, false));
  return spec;
}

}  // namespace

Result<std::shared_ptr<void>> Cells::start(const Command& command) {
  if (command.argv.empty() || command.argv.front().empty() || command.argv.front()[0] != '/') {
    return Error::make(Code::invalid_params, "a cell's program must be an absolute path");
  }
  if (is_closed_) return Error::make(Code::unavailable, "the warden is stopping");
  if (!link_) {
    const auto hear = [this](const sandbox::FromLauncher& notice, std::vector<UniqueFd> fds) {
      on_notice(notice, std::move(fds));
    };
    TRY(link_, LauncherLink::start(loop_, log_, hear, [this] { waiting_.clear(); }));
  }
  const sandbox::Handle handle = ++last_;
  TRY(sandbox::Spec spec, make_spec(command, handle));
  const std::vector<std::string> environment = spec.environment;
  TRY(link_->send(sandbox::LaunchRequest{handle, std::move(spec)}));
  if (command.on_proxy_listener) waiting_.emplace(handle, command.on_proxy_listener);
  const std::weak_ptr<LauncherLink> weak = link_;
  std::shared_ptr<void> cell(nullptr, [weak, handle](void*) {
    if (const auto link = weak.lock()) [[maybe_unused]]
      const Status killed = link->send(sandbox::KillRequest{handle});
  });
  TRY(link_->send(sandbox::ExecRequest{handle, kJob, command.argv, environment, "/"}, command.fds));
  return cell;
}

void Cells::on_notice(const sandbox::FromLauncher& notice, std::vector<UniqueFd> fds) {
  if (const auto* failed = std::get_if<sandbox::LaunchFailed>(&notice)) {
    waiting_.erase(failed->container);
    log_.error("a cell failed", {{"error", failed->message}, {"detail", failed->detail}});
  }
  if (const auto* launched = std::get_if<sandbox::Launched>(&notice)) {
    const auto waiting = waiting_.extract(launched->container);
    if (!waiting.empty() && launched->has_proxy_listener && !fds.empty()) waiting.mapped()(std::move(fds.back()));
  }
}

}  // namespace sallyport::containers

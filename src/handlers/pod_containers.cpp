#include "handlers/pod_containers.h"

#include <csignal>

#include "handlers/net_reports.h"

namespace sallyport::handlers {
namespace {

containers::Registry::Adopted place_of(const pod::Record& record) {
  return {.pid = static_cast<pid_t>(record.agent_pid),
          .maker = static_cast<pid_t>(record.binding.pid),
          .pid_namespace = record.pid_namespace};
}

void forget(Host& host, const std::string& id) {
  if (const auto container = host.containers.find(id)) host.containers.record_loss(*container);
  remove_when_idle(host, id);
}

}  // namespace

void adopt_pod(Host& host, const pod::Record& record) {
  const auto container = host.containers.find(record.container);
  if (!container || containers::is_over(container->state)) return;
  // One that has ended already is told of soon.
  if (const Status adopted = host.containers.adopt(*container, place_of(record)); !adopted) {
    host.sessions.log().info("a pod ended at once", {{"pod", record.name}, {"error", adopted.error().describe()}});
  }
}

void adopt_pod_again(Host& host, const pod::Record& record) {
  const auto container = host.containers.find(record.container);
  if (!container || container->config.pod != record.name || !containers::is_over(container->state) ||
      record.wait_status) {
    return;
  }
  if (const Status adopted = host.containers.adopt_again(*container, place_of(record)); !adopted) {
    host.sessions.log().error("a pod has no door any more",
                              {{"pod", record.name}, {"error", adopted.error().describe()}});
  }
  set_policy(host, *container);
}

void forget_ended_pods(Host& host, const std::string& name) {
  for (const auto& [id, container] : host.containers.all()) {
    if (container->config.pod == name && containers::is_over(container->state)) forget(host, id);
  }
}

void end_pod(Host& host, const std::string& id, int wait_status) {
  const auto container = host.containers.find(id);
  if (!container) return;
  host.containers.release(*container, wait_status);
  set_policy(host, *container);
  forget(host, id);
}

void record_pod(Host& host, const pod::Record& record, wire::Value report) {
  if (const wire::Value net = report.get("net")) {
    if (auto connection = egress::read_report(net)) {
      // Who it was is known from the pod that says it.
      connection->container = record.container;
      record_connection(host, *connection);
    }
    return;
  }
  if (const wire::Value finding = report.get("finding"))
    return host.containers.report(record.container, {text(finding)});
  ledger::Entry entry;
  entry.principal = Principal::host().to_string();
  entry.session = "pod/" + record.name;
  if (const auto lost = report.get("lost").as_uint()) {
    entry.method = "audit.suppressed";
    entry.rule = "count=" + std::to_string(*lost);
  } else {
    entry.time_ms = report.get("time_ms").as_int().value_or(0);
    entry.session += "/" + text(report.get("session"));
    entry.peer_pid = report.get("peer_pid").as_int().value_or(-1);
    entry.request_id = text(report.get("request_id"));
    entry.method = text(report.get("method"));
    entry.rule = text(report.get("detail"));
    if (report.get("code")) entry.code = text(report.get("code"));
  }
  // If there is no room for it the ledger counts it, and says so when there is.
  [[maybe_unused]] const Status appended = host.ledger.append(entry);
}

policy::NetPolicy net_policy_of(const Host& host, const std::string& id) {
  policy::NetPolicy nothing;
  nothing.is_faulty = host.is_net_faulty;
  const auto container = host.containers.find(id);
  const auto profile = container ? profile_of(host.profiles, container->config)
                                 : Result<policy::Profile>(Error::make(Code::not_found, "no such container"));
  if (!profile) return nothing;
  auto policy = policy::NetPolicy::make(profile->net_allow, profile->net_deny, profile->net_limits);
  if (!policy) return nothing;
  policy->is_faulty = host.is_net_faulty;
  return std::move(*policy);
}

}  // namespace sallyport::handlers

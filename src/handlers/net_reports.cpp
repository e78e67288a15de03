#include "handlers/net_reports.h"

namespace sallyport::handlers {
namespace {

using egress::Report;

ledger::Entry entry_of(const Report& report) {
  ledger::Entry entry;
  entry.stage = report.kind == Report::Kind::closed ? ledger::Stage::outcome : ledger::Stage::decision;
  entry.principal = Principal::container(report.container).to_string();
  entry.session = report.target();
  entry.request_id = std::to_string(report.number);
  entry.method = "egress.connect";
  entry.rule = report.rule;
  if (report.code) entry.code = to_string(*report.code);
  if (report.count > 1) entry.rule += " (" + std::to_string(report.count) + " times)";
  entry.payload_bytes = report.sent + report.received;
  return entry;
}

}  // namespace

void record_connection(Host& host, const Report& report) {
  // If there is no room for it the ledger counts it, and says so when there is.
  [[maybe_unused]] const Status appended = host.ledger.append(entry_of(report));
  if (!egress::is_violation(report)) return;
  if (const auto container = host.containers.find(report.container)) container->violations += report.count;
  host.events.publish("container.violation", wire::to_json([&](wire::JsonWriter& json) {
                        json.begin_object()
                            .member("container", report.container)
                            .member("layer", "egress")
                            .member("operation", egress::to_string(report.protocol))
                            .member("target", report.target())
                            .member("rule", report.rule)
                            .member("reason", report.reason)
                            .member("remedy", report.remedy)
                            .member("count", report.count)
                            .member("time", host.clock.unix_millis())
                            .end_object();
                      }));
}

void record_adapter_connection(Host& host, wire::Value said) {
  const auto report = egress::read_report(said.get("report"));
  if (!report) return;
  ledger::Entry entry = entry_of(*report);
  entry.principal = Principal::host().to_string();
  entry.session = "adapter/" + text(said.get("adapter")) + "/" + entry.session;
  [[maybe_unused]] const Status appended = host.ledger.append(entry);
  if (!egress::is_violation(*report)) return;
  host.sessions.log().warn(
      "a third-party adapter was refused a connection",
      {{"adapter", text(said.get("adapter"))}, {"host", report->target()}, {"why", report->reason}});
}

Status take_reports(Host& host, const std::string& container, wire::Value reports) {
  for (const wire::Value each : reports.items()) {
    auto report = egress::read_report(each);
    if (!report) return Error::invalid_param("params.net", "has something that is no report");
    // Who it was is known from the one that says it.
    report->container = container;
    host.egress.take(std::move(*report));
  }
  return ok();
}

}  // namespace sallyport::handlers

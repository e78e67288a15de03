#include "handlers/net_reports.h"

namespace sallyport::handlers {
namespace {

using egress::Report;

ledger::Entry entry_of(const Report& report) {
  ledger::Entry entry;
  entry.stage = report.kind == Report::Kind::closed ? ledger::Stage::outcome : ledger::Stage::decision;
  entry.principal = Principal::container(report.container).to_string();
  entry.session = report.host + ":" + std::to_string(report.port);
  entry.request_id = std::to_string(report.number);
  entry.method = "egress.connect";
  entry.rule = report.rule;
  if (report.kind == Report::Kind::refused) {
    entry.code = to_string(report.code);
    if (report.suppressed != 0) entry.rule += " (and " + std::to_string(report.suppressed) + " more refusals)";
  }
  entry.payload_bytes = report.sent + report.received;
  return entry;
}

}  // namespace

void record_connection(Host& host, const Report& report) {
  // If there is no room for it the ledger counts it, and says so when there is.
  [[maybe_unused]] const Status appended = host.ledger.append(entry_of(report));
  if (!egress::is_violation(report)) return;
  if (const auto container = host.containers.find(report.container)) container->violations += 1 + report.suppressed;
  host.events.publish("container.violation", wire::to_json([&](wire::JsonWriter& json) {
                        json.begin_object()
                            .member("container", report.container)
                            .member("layer", "egress")
                            .member("operation", egress::to_string(report.protocol))
                            .member("target", report.host + ":" + std::to_string(report.port))
                            .member("rule", report.rule)
                            .member("reason", report.reason)
                            .member("remedy", report.remedy)
                            .member("time", host.clock.unix_millis())
                            .end_object();
                      }));
}

}  // namespace sallyport::handlers

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

void record_adapter_connection(Host& host, wire::Value said) {
  const auto report = egress::read_report(said.get("report"));
  if (!report) return;
  ledger::Entry entry = entry_of(*report);
  entry.principal = Principal::host().to_string();
  entry.session = "adapter/" + text(said.get("adapter")) + "/" + entry.session;
  [[maybe_unused]] const Status appended = host.ledger.append(std::move(entry));
  if (!egress::is_violation(*report)) return;
  host.sessions.log().warn("a third-party adapter was refused a connection",
                           {{"adapter", text(said.get("adapter"))},
                            {"host", report->host + ":" + std::to_string(report->port)},
                            {"why", report->reason}});
}

void record_connections(Host& host, const std::string& container, wire::Value tally) {
  for (const wire::Value entry : tally.items()) {
    const auto number = [&](const char* name) { return entry.get(name).as_uint().value_or(0); };
    Report report;
    report.container = container;
    report.host = text(entry.get("host"));
    report.port = static_cast<std::uint16_t>(number("port"));
    report.rule = text(entry.get("rule"));
    report.reason = text(entry.get("reason"));
    if (number("refused") != 0) {
      report.suppressed = number("refused") - 1;
      record_connection(host, report);
    }
    if (number("opened") == 0) continue;
    report.kind = Report::Kind::closed;
    report.number = number("opened");
    report.rule = std::to_string(number("opened")) + " connections";
    report.sent = number("sent");
    report.received = number("received");
    record_connection(host, report);
  }
}

}  // namespace sallyport::handlers

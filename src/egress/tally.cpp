#include "egress/tally.h"

#include "egress/limits.h"

namespace sallyport::egress {

void Tally::add(const Report& report) {
  auto key = std::pair(report.host, report.port);
  if (entries_.size() >= kMaxHostsCounted && !entries_.contains(key)) key = {"(others)", 0};
  Entry& entry = entries_[key];
  switch (report.kind) {
    case Report::Kind::refused:
      (is_violation(report) ? entry.refused : entry.failed) += 1;
      entry.refused += report.suppressed;  // of whichever hosts
      refused_ += (is_violation(report) ? 1 : 0) + report.suppressed;
      entry.rule = report.rule;
      entry.reason = report.reason;
      entry.remedy = report.remedy;
      break;
    case Report::Kind::opened:
      ++entry.opened;
      ++used_.requests;
      break;
    case Report::Kind::closed:
      entry.sent += report.sent;
      entry.received += report.received;
      used_.bytes += report.sent + report.received;
      break;
  }
}

void Tally::write(wire::JsonWriter& json) const {
  json.begin_array();
  for (const auto& [target, entry] : entries_) {
    json.begin_object().member("host", target.first).member("port", static_cast<unsigned>(target.second));
    json.member("opened", entry.opened).member("refused", entry.refused).member("sent", entry.sent);
    json.member("received", entry.received).member("failed", entry.failed);
    if (entry.refused + entry.failed != 0) json.member("rule", entry.rule).member("reason", entry.reason);
    json.end_object();
  }
  json.end_array();
}

}  // namespace sallyport::egress

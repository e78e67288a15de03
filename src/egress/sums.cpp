#include "egress/sums.h"

#include "egress/limits.h"

namespace sallyport::egress {

Sums::Key Sums::key_of(const Report& report) {
  return {report.container, report.kind, report.protocol, report.host,
          report.port,      report.code, report.rule,     report.reason};
}

void Sums::add(Report report) {
  auto found = by_key_.find(key_of(report));
  if (found == by_key_.end() && by_key_.size() >= kMaxHostsCounted) {
    report.protocol = Protocol::connect;
    report.host = kOtherHosts;
    report.port = 0;
    report.rule = report.reason = report.remedy = {};
    found = by_key_.find(key_of(report));
  }
  if (found == by_key_.end()) {
    Key key = key_of(report);
    reports_.push_back(std::move(report));
    by_key_.emplace(std::move(key), std::prev(reports_.end()));
    return;
  }
  Report& known = *found->second;
  known.number = report.number;
  known.sent += report.sent;
  known.received += report.received;
  known.count += report.count;
}

Report Sums::take() {
  Report report = std::move(reports_.front());
  reports_.pop_front();
  by_key_.erase(key_of(report));
  return report;
}

}  // namespace sallyport::egress

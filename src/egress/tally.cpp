#include "egress/tally.h"

#include <algorithm>

#include "egress/limits.h"
#include "wire/limits.h"

namespace sallyport::egress {
namespace {

constexpr std::size_t kMostInAFrame = wire::kMaxFrameBytes - (64U << 10);

void add_reason(Tally::Entry& entry, const Report& report) {
  const auto known = std::find_if(entry.reasons.begin(), entry.reasons.end(), [&](const Tally::Reason& each) {
    return each.rule == report.rule && each.reason == report.reason;
  });
  if (known != entry.reasons.end()) {
    known->count += report.count;
  } else if (entry.reasons.size() < kMaxReasons) {
    entry.reasons.push_back({report.rule, report.reason, report.remedy, report.count});
  }
}

}  // namespace

void Tally::add(const Report& report) {
  auto key = std::pair(report.host, report.port);
  if (entries_.size() >= kMaxHostsCounted && !entries_.contains(key)) key = {std::string(kOtherHosts), 0};
  Entry& entry = entries_[key];
  switch (report.kind) {
    case Report::Kind::refused:
      (is_violation(report) ? entry.refused : entry.failed) += report.count;
      break;
    case Report::Kind::opened:
      entry.opened += report.count;
      used_.requests += report.count;
      break;
    case Report::Kind::closed:
      if (report.code) entry.cut += report.count;
      entry.sent += report.sent;
      entry.received += report.received;
      used_.bytes += report.sent + report.received;
      break;
  }
  if (report.code) add_reason(entry, report);
}

void Tally::write_entry(wire::JsonWriter& json, const std::pair<std::string, std::uint16_t>& target,
                        const Entry& entry) {
  json.begin_object().member("host", target.first).member("port", static_cast<unsigned>(target.second));
  json.member("opened", entry.opened).member("refused", entry.refused).member("sent", entry.sent);
  json.member("received", entry.received).member("failed", entry.failed).member("cut", entry.cut);
  json.key("reasons").begin_array();
  for (const Reason& reason : entry.reasons) {
    json.begin_object().member("rule", reason.rule).member("reason", reason.reason);
    json.member("remedy", reason.remedy).member("count", reason.count).end_object();
  }
  json.end_array().end_object();
}

void Tally::describe(wire::JsonWriter& json) const {
  if (const std::size_t left_out = write(json.key("net"), kMostInAFrame)) json.member("net_left_out", left_out);
}

std::size_t Tally::write(wire::JsonWriter& json, std::size_t most) const {
  std::size_t left_out = 0;
  json.begin_array();
  // First whom it reached: trying many names does not hide that.
  for (const bool was_reached : {true, false}) {
    for (const auto& [target, entry] : entries_) {
      if ((entry.opened != 0) != was_reached) continue;
      if (json.out().size() < most) {
        write_entry(json, target, entry);
      } else {
        ++left_out;
      }
    }
  }
  json.end_array();
  return left_out;
}

}  // namespace sallyport::egress

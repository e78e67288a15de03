#include "pod/reports.h"

#include <algorithm>

#include "pod/limits.h"

namespace sallyport::pod {

void Reports::add(const std::function<void(wire::JsonWriter&)>& members) {
  const std::uint64_t number = ++last_;
  kept_.push_back({number, wire::to_json([&](wire::JsonWriter& json) {
                     json.begin_object().member("number", number).member("time_ms", clock_.unix_millis());
                     members(json);
                     json.end_object();
                   })});
  if (kept_.size() <= kMaxReports) return;
  kept_.pop_front();
  ++lost_;
}

void Reports::taken(std::uint64_t number) {
  // Numbers start at 1: whoever has taken none yet has not heard of the lost ones either.
  if (number == 0) return;
  lost_ = 0;
  while (!kept_.empty() && kept_.front().number <= number) kept_.pop_front();
}

void Reports::write(wire::JsonWriter& json) const {
  json.key("reports").begin_array();
  const std::size_t count = std::min(kept_.size(), kReportsAtOnce);
  for (std::size_t i = 0; i < count; ++i) json.raw(kept_[i].json);
  json.end_array().member("lost", lost_);
}

}  // namespace sallyport::pod

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
  if (kept_.size() > kMaxReports) kept_.pop_front();
}

void Reports::taken(std::uint64_t number) {
  taken_ = std::max(taken_, std::min(number, last_));
  while (!kept_.empty() && kept_.front().number <= number) kept_.pop_front();
}

void Reports::write(wire::JsonWriter& json) const {
  json.key("reports").begin_array();
  const std::size_t count = std::min(kept_.size(), kReportsAtOnce);
  for (std::size_t i = 0; i < count; ++i) json.raw(kept_[i].json);
  // Those before the first that is kept, as far as the warden has not taken them: what gives way while an answer with
  // it is on its way is not lost.
  const std::uint64_t before = kept_.empty() ? last_ : kept_.front().number - 1;
  json.end_array().member("lost", before - std::min(before, taken_));
}

}  // namespace sallyport::pod

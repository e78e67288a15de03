#include "platform/admission.h"

#include "platform/limits.h"

namespace sallyport::platform {

Admissions::Share::Share(std::shared_ptr<std::map<std::string, Load>> loads, std::string tenant, Load load)
    : loads_(std::move(loads)), tenant_(std::move(tenant)), load_(load) {
  Load& total = (*loads_)[tenant_];
  total.calls += load_.calls;
  total.bytes += load_.bytes;
  total.streams += load_.streams;
}

Admissions::Share::~Share() {
  if (!loads_) return;
  const auto found = loads_->find(tenant_);
  found->second.calls -= load_.calls;
  found->second.bytes -= load_.bytes;
  found->second.streams -= load_.streams;
  if (found->second.calls == 0) loads_->erase(found);
}

Result<Admissions::Share> Admissions::admit(const std::string& tenant, std::size_t bytes, std::size_t streams) {
  const auto found = loads_->find(tenant);
  const Load now = found == loads_->end() ? Load() : found->second;
  if (now.calls >= kMaxCallsPerTenant || now.bytes + bytes > kMaxBytesPerTenant ||
      now.streams + streams > kMaxStreamsPerTenant) {
    Error error = Error::make(Code::rate_limited, "too many calls of this tenant are under way; try again");
    error.retryable = true;
    return error;
  }
  return Share(loads_, tenant, {1, bytes, streams});
}

}  // namespace sallyport::platform

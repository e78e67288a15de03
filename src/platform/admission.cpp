#include "platform/admission.h"

#include "platform/limits.h"

namespace sallyport::platform {
namespace {

// Tenants in all before those that have nothing under way are forgotten.
constexpr std::size_t kKeptTenants = 64;

void forget_if_idle(Admissions::Loads& loads, Admissions::Loads::iterator tenant) {
  if (tenant->second.calls == 0 && loads.size() > kKeptTenants) loads.erase(tenant);
}

}  // namespace

Admissions::Share::~Share() {
  if (!loads_) return;
  Load& total = tenant_->second;
  total.calls -= load_.calls;
  total.bytes -= load_.bytes;
  total.streams -= load_.streams;
  forget_if_idle(*loads_, tenant_);
}

Result<Admissions::Share> Admissions::admit(const std::string& tenant, std::size_t bytes, std::size_t streams) {
  const auto found = loads_->try_emplace(tenant).first;
  Load& now = found->second;
  if (now.calls >= kMaxCallsPerTenant || now.bytes + bytes > kMaxBytesPerTenant ||
      now.streams + streams > kMaxStreamsPerTenant) {
    forget_if_idle(*loads_, found);
    Error error = Error::make(Code::rate_limited, "too many calls of this tenant are under way; try again");
    error.retryable = true;
    return error;
  }
  const Load load{1, bytes, streams};
  now.calls += load.calls;
  now.bytes += load.bytes;
  now.streams += load.streams;
  return Share(loads_, found, load);
}

}  // namespace sallyport::platform

// What must hold before a call reaches an adapter, decided from the container's identity and its profile: the
// role, the name, the size, the hosts behind it, the quotas. Nothing of it comes from the message but what it
// asks for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "handlers/method.h"
#include "platform/operations.h"

namespace sallyport::handlers {

// Whose data it is, and what its profile grants.
struct PlatformTenant {
  std::string name;                                         // "host", "profile.NAME" or "container.ID"
  const policy::AdapterPermissions* permissions = nullptr;  // null: the host, which may do everything
  policy::AdapterQuotas quotas;
  std::string workspace = {};  // of the container that asks; empty: none

  const policy::AdapterGrant* grant(std::string_view role) const;  // null: denied; the host gets one for all
};
Result<PlatformTenant> platform_tenant(const RequestContext& context, Host& host);
// That of a profile's containers; `container` counts where each is one of its own.
PlatformTenant tenant_of(const policy::Profile& profile, const std::string& container, const Host& host);

// Whether the tenant's workers do it themselves. The host is no worker.
bool is_in_worker(const PlatformTenant& tenant, platform::Role role, const platform::Config& config);

// What one call asks for, as far as permissions and quotas are concerned.
struct PlatformAsk {
  std::string scope;            // the name; written into what is passed on, where the message left it out
  std::size_t bytes = 0;        // of the value, text or batch
  std::int64_t stored = 0;      // what it may add to what is stored; see platform::kObjectCost
  std::int64_t tokens = 0;      // it may cost, input and output
  std::int64_t max_tokens = 0;  // of the answer; 0: no such thing
  std::size_t text_bytes = 0;   // of what a model reads
  std::size_t streams = 0;
  std::size_t answer_bytes = 0;  // its answer may have; 0: a few numbers
  // What a program that did not come with us may claim to have freed; absent: what is counted is counted by ours.
  std::optional<std::int64_t> most_freed = {};
};
// POLICY_DENIED, PAYLOAD_TOO_LARGE or INVALID_PARAMS.
Result<PlatformAsk> check_platform_call(const platform::Operation& operation, const PlatformTenant& tenant,
                                        const wire::Message& message, const platform::Config& config);

// Open reservations of one call. What is not settled when it goes was never asked of anybody, and is given back.
class PlatformSpending {
 public:
  PlatformSpending(ledger::Ledger& ledger, std::string key) : ledger_(ledger), key_(std::move(key)) {}
  ~PlatformSpending() { settle(0); }
  PlatformSpending(const PlatformSpending&) = delete;
  PlatformSpending& operator=(const PlatformSpending&) = delete;

  bool is_open() const { return !open_.empty(); }
  // QUOTA_EXCEEDED with retry_after_ms; what was reserved before is given back.
  Status reserve(const platform::Operation& operation, const PlatformAsk& ask, const policy::AdapterQuotas& quotas);
  void settle(std::int64_t used);  // of bytes or tokens; a request is spent as soon as it is made
  void settle_as_reserved();       // nobody knows what became of it
  // By what the adapters answered: what they say it came to where that can be, and what was reserved otherwise.
  void settle_by(const platform::Operation& operation, const Error& error);
  void settle_by(const platform::Operation& operation, const PlatformAsk& ask, wire::Value result);

 private:
  ledger::Ledger& ledger_;
  std::string key_;
  std::vector<ledger::Quotas::Reservation> open_;
};

inline constexpr std::string_view kStorageBytes = "storage_bytes";
inline constexpr Millis kMinute{60'000}, kDay{86'400'000};
std::string quota_key(const PlatformTenant& tenant);
inline constexpr std::string_view kContainerTenant = "container.";

}  // namespace sallyport::handlers

// What a profile grants of the platform: which adapters, and of each which names, how much, and at whose cost.
//
//   tenant        = "profile"      # whose data it is: all containers of the profile share it; or "container"
//   allowed_hosts = ["api.example.com"]          # if given: adapters that reach another host are refused
//   quotas        = { storage_bytes = "64MiB", tokens_per_day = 100000, requests_per_minute = 600 }
//   [profile.NAME.permissions.adapters]
//   storage    = { buckets = ["history"], max_bytes = "16MiB", access = "read" }
//   cache      = { namespaces = ["*"], max_bytes = "1MiB" }
//   vector     = { namespaces = ["docs"] }
//   llm        = { models = ["small"], max_tokens = 1000 }
//   embeddings = { models = ["*"] }
//   events     = { namespaces = ["jobs.*"] }
//   log        = {}
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"

namespace sallyport::policy {

struct AdapterGrant {
  std::vector<std::string> names = {};    // buckets, namespaces or models; "*" and "group.*" as for methods
  std::uint64_t max_bytes = 16ULL << 20;  // of one value, text or batch
  std::int64_t max_tokens = 4096;         // of one answer
  bool may_write = true;

  bool operator==(const AdapterGrant&) const = default;
};

// Absent: no limit.
struct AdapterQuotas {
  std::optional<std::int64_t> storage_bytes, tokens_per_day, requests_per_minute;

  bool operator==(const AdapterQuotas&) const = default;
};

enum class Tenant : std::uint8_t { profile, container };

struct AdapterPermissions {
  std::map<std::string, AdapterGrant, std::less<>> adapters;  // by role; one that is absent is denied
  std::optional<std::vector<std::string>> allowed_hosts;
  AdapterQuotas quotas;
  Tenant tenant = Tenant::profile;

  bool operator==(const AdapterPermissions&) const = default;
};

}  // namespace sallyport::policy

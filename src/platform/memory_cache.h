// A cache in memory: bounded, the least recently used goes first. The same in a worker and on the host.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/base.h"

namespace sallyport::platform {

// The number a cached value holds, and the sum. CONFLICT if it is no whole number as we would write it, or the sum is
// none that 64 bits hold.
Result<std::int64_t> add_to(std::string_view value, std::int64_t by);

class MemoryCache {
 public:
  static constexpr std::size_t kDefaultBytes = 64U << 20;
  explicit MemoryCache(const Clock& clock, std::size_t most_bytes = kDefaultBytes)
      : clock_(clock), most_bytes_(most_bytes) {}

  // Valid until the next call.
  const std::string* get(const std::string& key);
  // PAYLOAD_TOO_LARGE: alone it would not fit.
  Status set(const std::string& key, std::string value, std::optional<Millis> ttl);
  Result<bool> set_if_absent(const std::string& key, std::string value, std::optional<Millis> ttl);
  // What is absent counts as 0, and its life ends after `ttl`. CONFLICT as add_to() says.
  Result<std::int64_t> add(const std::string& key, std::int64_t by, std::optional<Millis> ttl);
  bool remove(const std::string& key);
  std::int64_t remove_prefix(std::string_view prefix);
  std::optional<Millis> time_left(const std::string& key) const;  // of one that has an end

 private:
  struct Entry {
    std::string key, value;
    std::optional<SteadyTime> ends;
  };
  using Entries = std::list<Entry>;  // most recently used first
  // What an entry costs beside its bytes: list and table nodes.
  static constexpr std::size_t kOverhead = 160;
  static std::size_t cost(const Entry& entry) { return entry.key.size() * 2 + entry.value.size() + kOverhead; }
  void erase(Entries::iterator entry);

  const Clock& clock_;
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> places_;
};

}  // namespace sallyport::platform

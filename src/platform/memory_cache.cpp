#include "platform/memory_cache.h"

#include <charconv>

namespace sallyport::platform {

Result<std::int64_t> add_to(std::string_view value, std::int64_t by) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  // "01" and "-0" are texts, as they are to Redis.
  if (error != std::errc() || end != value.data() + value.size() || std::to_string(number) != value) {
    return Error::make(Code::conflict, "what is there is no whole number");
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(number, by, &sum)) return Error::make(Code::conflict, "the number would be too large");
  return sum;
}

void MemoryCache::erase(Entries::iterator entry) {
  bytes_ -= cost(*entry);
  places_.erase(entry->key);
  entries_.erase(entry);
}

const std::string* MemoryCache::get(const std::string& key) {
  const auto found = places_.find(key);
  if (found == places_.end()) return nullptr;
  const auto entry = found->second;
  if (entry->ends && *entry->ends <= clock_.steady()) {
    erase(entry);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, entry);
  return &entry->value;
}

Status MemoryCache::set(const std::string& key, std::string value, std::optional<Millis> ttl) {
  Entry entry{key, std::move(value), {}};
  if (ttl) entry.ends = clock_.steady() + *ttl;
  const std::size_t needed = cost(entry);
  if (needed > most_bytes_) return Error::make(Code::payload_too_large, "the value is larger than the whole cache");
  if (const auto found = places_.find(key); found != places_.end()) erase(found->second);
  while (bytes_ + needed > most_bytes_) erase(std::prev(entries_.end()));
  entries_.push_front(std::move(entry));
  places_.emplace(key, entries_.begin());
  bytes_ += needed;
  return ok();
}

Result<bool> MemoryCache::set_if_absent(const std::string& key, std::string value, std::optional<Millis> ttl) {
  if (get(key) != nullptr) return false;
  TRY(set(key, std::move(value), ttl));
  return true;
}

Result<std::int64_t> MemoryCache::add(const std::string& key, std::int64_t by, std::optional<Millis> ttl) {
  const std::string* old = get(key);
  TRY(const std::int64_t sum, add_to(old != nullptr ? *old : "0", by));
  TRY(set(key, std::to_string(sum), old != nullptr ? time_left(key) : ttl));
  return sum;
}

bool MemoryCache::remove(const std::string& key) {
  if (get(key) == nullptr) return false;
  erase(places_.find(key)->second);
  return true;
}

std::int64_t MemoryCache::remove_prefix(std::string_view prefix) {
  std::int64_t count = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->key.starts_with(prefix)) {
      erase(entry);
      ++count;
    }
    entry = next;
  }
  return count;
}

std::optional<Millis> MemoryCache::time_left(const std::string& key) const {
  const auto found = places_.find(key);
  if (found == places_.end() || !found->second->ends) return std::nullopt;
  return std::chrono::ceil<Millis>(*found->second->ends - clock_.steady());
}

}  // namespace sallyport::platform

#include "platform/memory_cache.h"

namespace sallyport::platform {

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

bool MemoryCache::set(const std::string& key, std::string value, std::optional<Millis> ttl) {
  if (const auto found = places_.find(key); found != places_.end()) erase(found->second);
  Entry entry{key, std::move(value), {}};
  if (ttl) entry.ends = clock_.steady() + *ttl;
  const std::size_t needed = cost(entry);
  if (needed > most_bytes_) return false;
  while (bytes_ + needed > most_bytes_) erase(std::prev(entries_.end()));
  entries_.push_front(std::move(entry));
  places_.emplace(key, entries_.begin());
  bytes_ += needed;
  return true;
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

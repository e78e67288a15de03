// The role `cache`: get set delete clear set_if_absent incr, over one of several stores.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "adapters/adapter.h"
#include "platform/memory_cache.h"

namespace sallyport::adapters {

struct CacheKey {
  Scope scope;
  std::string key;
};

// Absent: until it is deleted or evicted.
using Ttl = std::optional<Millis>;

class Cache : public Adapter {
 public:
  Task<ipc::Reply> handle(std::string_view verb, ipc::Call& call) final;

 protected:
  virtual Task<Result<std::optional<std::string>>> get(const CacheKey& key) = 0;
  virtual Task<Status> set(const CacheKey& key, std::string value, Ttl ttl) = 0;
  virtual Task<Result<bool>> set_if_absent(const CacheKey& key, std::string value, Ttl ttl) = 0;
  virtual Task<Result<bool>> remove(const CacheKey& key) = 0;
  // One that takes more than a step ends with the call.
  virtual Task<Result<std::int64_t>> clear(const ipc::Call& call, const Scope& scope) = 0;
  // A key that is absent counts as 0; its life ends after `ttl` from its first increment. CONFLICT if what is
  // there is no number.
  virtual Task<Result<std::int64_t>> incr(const CacheKey& key, std::int64_t by, Ttl ttl) = 0;

 private:
  Task<ipc::Reply> get_value(ipc::Call& call, CacheKey key);
  Task<ipc::Reply> set_value(ipc::Call& call, CacheKey key, bool only_if_absent);
  Task<ipc::Reply> delete_value(ipc::Call& call, CacheKey key);
  Task<ipc::Reply> increment(ipc::Call& call, CacheKey key);
  Task<ipc::Reply> clear_scope(ipc::Call& call, Scope scope);
};

using platform::add_to;

std::unique_ptr<Adapter> make_memory_cache(const platform::Options& options, Machinery& machinery);
std::unique_ptr<Adapter> make_sqlite_cache(const std::string& directory, Machinery& machinery);
std::unique_ptr<Adapter> make_redis_cache(std::shared_ptr<Redis> redis);

}  // namespace sallyport::adapters

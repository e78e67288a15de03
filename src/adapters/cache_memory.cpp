#include "adapters/cache.h"

namespace sallyport::adapters {
namespace {

// No name contains a NUL: it cannot be spelled in a path, and a key that has one is a key of its own.
std::string prefix_of(const Scope& scope) { return scope.tenant + '\0' + scope.name + '\0'; }

class CacheInMemory final : public Cache {
 public:
  CacheInMemory(const Clock& clock, std::size_t most_bytes) : store_(clock, most_bytes) {}

  Task<Status> probe() override { return Task<Status>::ready(ok()); }
  Task<Status> forget(const std::string& tenant) override {
    store_.remove_prefix(tenant + '\0');
    return Task<Status>::ready(ok());
  }

 protected:
  Task<Result<std::optional<std::string>>> get(const CacheKey& key) override {
    const std::string* value = store_.get(place(key));
    return ready<std::optional<std::string>>(value != nullptr ? std::optional(*value) : std::nullopt);
  }
  Task<Status> set(const CacheKey& key, std::string value, Ttl ttl) override {
    return Task<Status>::ready(store_.set(place(key), std::move(value), ttl));
  }
  Task<Result<bool>> set_if_absent(const CacheKey& key, std::string value, Ttl ttl) override {
    return Task<Result<bool>>::ready(store_.set_if_absent(place(key), std::move(value), ttl));
  }
  Task<Result<bool>> remove(const CacheKey& key) override { return ready(store_.remove(place(key))); }
  Task<Result<std::int64_t>> clear(const ipc::Call&, const Scope& scope) override {
    return ready(store_.remove_prefix(prefix_of(scope)));
  }
  Task<Result<std::int64_t>> incr(const CacheKey& key, std::int64_t by, Ttl ttl) override {
    return Task<Result<std::int64_t>>::ready(store_.add(place(key), by, ttl));
  }

 private:
  static std::string place(const CacheKey& key) { return prefix_of(key.scope) + key.key; }
  template <typename T>
  static Task<Result<T>> ready(T value) {
    return Task<Result<T>>::ready(Result<T>(std::move(value)));
  }

  platform::MemoryCache store_;
};

}  // namespace

std::unique_ptr<Adapter> make_memory_cache(const platform::Options& options, Machinery& machinery) {
  const std::size_t most =
      options.max_bytes != 0 ? static_cast<std::size_t>(options.max_bytes) : platform::MemoryCache::kDefaultBytes;
  return std::make_unique<CacheInMemory>(machinery.clock, most);
}

}  // namespace sallyport::adapters

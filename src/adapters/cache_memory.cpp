#include "adapters/cache.h"
#include "platform/memory_cache.h"

namespace sallyport::adapters {
namespace {

// No name contains a NUL: it cannot be spelled in a path, and a key that has one is a key of its own.
std::string prefix_of(const Scope& scope) { return scope.tenant + '\0' + scope.name + '\0'; }

class CacheInMemory final : public Cache {
 public:
  CacheInMemory(const Clock& clock, std::size_t most_bytes) : store_(clock, most_bytes) {}

  Task<Status> probe() override { return Task<Status>::ready(ok()); }

 protected:
  Task<Result<std::optional<std::string>>> get(const CacheKey& key) override {
    const std::string* value = store_.get(place(key));
    return ready<std::optional<std::string>>(value != nullptr ? std::optional(*value) : std::nullopt);
  }
  Task<Status> set(const CacheKey& key, std::string value, Ttl ttl) override {
    if (store_.set(place(key), std::move(value), ttl)) return Task<Status>::ready(ok());
    return Task<Status>::ready(Error::make(Code::payload_too_large, "the value is larger than the whole cache"));
  }
  Task<Result<bool>> set_if_absent(const CacheKey& key, std::string value, Ttl ttl) override {
    if (store_.get(place(key)) != nullptr) return ready(false);
    return ready(store_.set(place(key), std::move(value), ttl));
  }
  Task<Result<bool>> remove(const CacheKey& key) override { return ready(store_.remove(place(key))); }
  Task<Result<std::int64_t>> clear(const Scope& scope) override {
    return ready(store_.remove_prefix(prefix_of(scope)));
  }
  Task<Result<std::int64_t>> incr(const CacheKey& key, std::int64_t by, Ttl ttl) override {
    const std::string* old = store_.get(place(key));
    const Ttl left = old != nullptr ? store_.time_left(place(key)) : ttl;
    auto sum = add_to(old != nullptr ? *old : "0", by);
    if (sum) store_.set(place(key), std::to_string(*sum), left);
    return Task<Result<std::int64_t>>::ready(std::move(sum));
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

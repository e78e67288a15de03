#include "adapters/cache.h"
#include "adapters/redis.h"

namespace sallyport::adapters {
namespace {

constexpr std::int64_t kScanCount = 500;

std::string prefix_of(const std::string& tenant) { return "sallyport:" + tenant + ":"; }
// The length in front of the name keeps "a:b" + "c" and "a" + "b:c" apart.
std::string prefix_of(const Scope& scope) {
  return prefix_of(scope.tenant) + std::to_string(scope.name.size()) + ":" + scope.name + ":";
}

std::string escape_glob(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("*?[]\\^-").find(c) != std::string_view::npos) escaped.push_back('\\');
    escaped.push_back(c);
  }
  return escaped;
}

template <typename... Word>
std::vector<std::string> words(Word&&... each) {
  std::vector<std::string> all;
  all.reserve(sizeof...(each));
  (all.emplace_back(std::forward<Word>(each)), ...);
  return all;
}

Error refused(const RedisReply& reply) {
  if (reply.text.find("not an integer") != std::string::npos || reply.text.find("overflow") != std::string::npos) {
    return Error::make(Code::conflict, "what is there is no whole number, or it would be too large");
  }
  if (reply.text.starts_with("WRONGTYPE")) return Error::make(Code::conflict, "what is there is no value of a cache");
  if (reply.text.starts_with("OOM")) {
    Error error = Error::make(Code::unavailable, "the cache has no room left", "Redis: " + reply.text.substr(0, 80));
    error.retryable = true;
    return error;
  }
  // NOREPLICAS, LOADING, READONLY and the like: it is there, and will not.
  Error error =
      Error::make(Code::unavailable, "the cache refuses it now; try again", "Redis: " + reply.text.substr(0, 80));
  error.retryable = true;
  return error;
}

class CacheInRedis final : public Cache {
 public:
  explicit CacheInRedis(std::shared_ptr<Redis> redis) : redis_(std::move(redis)) {}

  Task<Status> probe() override {
    CO_TRY(co_await ask(words("PING")));
    co_return ok();
  }
  Task<Status> forget(const std::string& tenant) override {
    const std::string prefix = prefix_of(tenant);
    CO_TRY(co_await remove_all(prefix, [] { return false; }));
    co_return ok();
  }

 protected:
  Task<Result<std::optional<std::string>>> get(const CacheKey& key) override {
    CO_TRY(RedisReply reply, co_await ask(words("GET", place(key))));
    if (reply.kind != RedisReply::Kind::text) co_return std::optional<std::string>();
    co_return std::optional<std::string>(std::move(reply.text));
  }
  Task<Status> set(const CacheKey& key, std::string value, Ttl ttl) override {
    CO_TRY(co_await ask(set_words(key, std::move(value), ttl, false)));
    co_return ok();
  }
  Task<Result<bool>> set_if_absent(const CacheKey& key, std::string value, Ttl ttl) override {
    CO_TRY(const RedisReply reply, co_await ask(set_words(key, std::move(value), ttl, true)));
    co_return reply.kind == RedisReply::Kind::text;
  }
  Task<Result<bool>> remove(const CacheKey& key) override {
    CO_TRY(const RedisReply reply, co_await ask(words("DEL", place(key))));
    co_return reply.integer > 0;
  }
  Task<Result<std::int64_t>> clear(const ipc::Call& call, const Scope& scope) override {
    return remove_all(prefix_of(scope), [&call] { return call.is_given_up(); });
  }
  Task<Result<std::int64_t>> incr(const CacheKey& key, std::int64_t by, Ttl ttl) override {
    if (ttl) CO_TRY(co_await ask(set_words(key, "0", ttl, true)));
    CO_TRY(const RedisReply reply, co_await ask(words("INCRBY", place(key), std::to_string(by))));
    co_return reply.integer;
  }

 private:
  // Redis looks at every key of everybody for it: who asks for it and gives up, again and again, must not have all of
  // it done each time.
  Task<Result<std::int64_t>> remove_all(std::string prefix, std::function<bool()> is_given_up) {
    const std::string pattern = escape_glob(prefix) + "*";
    std::string cursor = "0";
    std::int64_t count = 0;
    do {
      if (is_given_up()) co_return Error::make(Code::cancelled, "given up");
      CO_TRY(RedisReply page,
             co_await ask(words("SCAN", cursor, "MATCH", pattern, "COUNT", std::to_string(kScanCount))));
      if (page.items.size() != 2) co_return backend_down("Redis answered SCAN with something else");
      cursor = page.items[0].text;
      std::vector<std::string> unlink = words("UNLINK");
      for (RedisReply& key : page.items[1].items) unlink.push_back(std::move(key.text));
      if (unlink.size() == 1) continue;
      CO_TRY(const RedisReply removed, co_await ask(std::move(unlink)));
      count += removed.integer;
    } while (cursor != "0");
    co_return count;
  }
  static std::string place(const CacheKey& key) { return prefix_of(key.scope) + key.key; }
  static std::vector<std::string> set_words(const CacheKey& key, std::string value, Ttl ttl, bool only_if_absent) {
    std::vector<std::string> all = words("SET", place(key), std::move(value));
    if (ttl) all.insert(all.end(), {"PX", std::to_string(ttl->count())});
    if (only_if_absent) all.emplace_back("NX");
    return all;
  }
  Task<Result<RedisReply>> ask(std::vector<std::string> command) {
    CO_TRY(RedisReply reply, co_await redis_->command(std::move(command)));
    if (reply.kind == RedisReply::Kind::error) co_return refused(reply);
    co_return reply;
  }

  std::shared_ptr<Redis> redis_;
};

}  // namespace

std::unique_ptr<Adapter> make_redis_cache(std::shared_ptr<Redis> redis) {
  return std::make_unique<CacheInRedis>(std::move(redis));
}

}  // namespace sallyport::adapters

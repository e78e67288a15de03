// A cache in a SQLite file: bounded, what was written longest ago goes first.
#include "adapters/cache.h"
#include "adapters/offload.h"
#include "adapters/store.h"
#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

// Of all rows: key, value and what a row costs besides.
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
constexpr std::int64_t kRowCost = platform::kObjectCost;
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS cache(seq INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, space TEXT NOT NULL,"
    " key TEXT NOT NULL, value BLOB NOT NULL, ends INTEGER NOT NULL, UNIQUE(tenant, space, key));";

using ledger::Database;
using ledger::Statement;

class CacheStore {
 public:
  CacheStore(const std::string& directory, const Clock& clock)
      : store_(directory, "cache.sqlite", kSchema, Database::Access::write_lazily), clock_(clock) {}

  Status open() {
    TRY(Database * database, store_.open());
    if (bytes_ >= 0) return ok();
    TRY(Statement sum,
        database->prepare("SELECT COALESCE(SUM(LENGTH(value) + LENGTH(CAST(key AS BLOB))), 0), COUNT(*) FROM cache"));
    TRY([[maybe_unused]] const bool has_row, sum.step());
    bytes_ = sum.integer(0) + sum.integer(1) * kRowCost;
    return ok();
  }

  Result<std::optional<std::string>> get(const CacheKey& key) {
    TRY(open());
    TRY(Database * database, store_.open());
    TRY(const auto row, find(*database, key));
    return row ? std::optional(row->value) : std::nullopt;
  }

  Result<bool> set(const CacheKey& key, const std::string& value, Ttl ttl, bool only_if_absent) {
    return change([&](Database& database) -> Result<bool> {
      TRY(const auto old, find(database, key));
      if (old && only_if_absent) return false;
      TRY(put(database, key, value, ttl ? clock_.unix_millis() + ttl->count() : 0));
      return true;
    });
  }

  Result<std::int64_t> incr(const CacheKey& key, std::int64_t by, Ttl ttl) {
    return change([&](Database& database) -> Result<std::int64_t> {
      TRY(const auto old, find(database, key));
      TRY(const std::int64_t sum, add_to(old ? old->value : "0", by));
      const std::int64_t ends = old ? old->ends : ttl ? clock_.unix_millis() + ttl->count() : 0;
      TRY(put(database, key, std::to_string(sum), ends));
      return sum;
    });
  }

  Result<bool> remove(const CacheKey& key) {
    return change([&](Database& database) -> Result<bool> {
      TRY(const auto old, find(database, key));
      TRY(erase(database, key));
      return old.has_value();
    });
  }

  Result<std::int64_t> clear(const Scope& scope) {
    return change([&](Database& database) -> Result<std::int64_t> {
      TRY(Statement expired,
          database.prepare("DELETE FROM cache WHERE tenant = ? AND space = ? AND ends <> 0 AND ends <= ?"
                           " RETURNING LENGTH(value) + LENGTH(CAST(key AS BLOB))"));
      TRY(take_out(expired.bind(scope.tenant).bind(scope.name).bind(clock_.unix_millis())));
      TRY(Statement all, database.prepare("DELETE FROM cache WHERE tenant = ? AND space = ?"
                                          " RETURNING LENGTH(value) + LENGTH(CAST(key AS BLOB))"));
      return take_out(all.bind(scope.tenant).bind(scope.name));
    });
  }

  Status forget(const std::string& tenant) {
    TRY(change([&](Database& database) -> Result<std::int64_t> {
      TRY(Statement all, database.prepare("DELETE FROM cache WHERE tenant = ?"
                                          " RETURNING LENGTH(value) + LENGTH(CAST(key AS BLOB))"));
      return take_out(all.bind(tenant));
    }));
    return ok();
  }

 private:
  struct Row {
    std::string value;
    std::int64_t ends = 0;
  };

  // In a transaction; what was counted in one that failed is not.
  template <typename Work>
  auto change(Work&& work) -> decltype(work(std::declval<Database&>())) {
    TRY(open());
    const std::int64_t before = bytes_;
    auto result = store_.transaction(work);
    if (!result) bytes_ = before;
    return result;
  }

  Result<std::optional<Row>> find(Database& database, const CacheKey& key) {
    TRY(Statement select, database.prepare("SELECT value, ends FROM cache WHERE tenant = ? AND space = ? AND key = ?"));
    select.bind(key.scope.tenant).bind(key.scope.name).bind(key.key);
    TRY(const bool has_row, select.step());
    if (!has_row) return std::optional<Row>();
    Row row{std::string(as_text(select.blob(0))), select.integer(1)};
    if (row.ends != 0 && row.ends <= clock_.unix_millis()) return std::optional<Row>();
    return std::optional<Row>(std::move(row));
  }

  // Deletes rows, and counts them: how many they were.
  Result<std::int64_t> take_out(Statement& rows) {
    for (std::int64_t count = 0;; ++count) {
      TRY(const bool has_row, rows.step());
      if (!has_row) return count;
      bytes_ -= rows.integer(0) + kRowCost;
    }
  }

  Status erase(Database& database, const CacheKey& key) {
    TRY(Statement one, database.prepare("DELETE FROM cache WHERE tenant = ? AND space = ? AND key = ?"
                                        " RETURNING LENGTH(value) + LENGTH(CAST(key AS BLOB))"));
    TRY(take_out(one.bind(key.scope.tenant).bind(key.scope.name).bind(key.key)));
    return ok();
  }

  Status put(Database& database, const CacheKey& key, const std::string& value, std::int64_t ends) {
    TRY(erase(database, key));
    TRY(Statement insert, database.prepare("INSERT INTO cache(tenant, space, key, value, ends) VALUES(?,?,?,?,?)"));
    TRY(insert.bind(key.scope.tenant).bind(key.scope.name).bind(key.key).bind(as_bytes(value)).bind(ends).run());
    bytes_ += static_cast<std::int64_t>(value.size() + key.key.size()) + kRowCost;
    if (bytes_ <= kMostBytes) return ok();
    TRY(Statement expired, database.prepare("DELETE FROM cache WHERE ends <> 0 AND ends <= ?"
                                            " RETURNING LENGTH(value) + LENGTH(CAST(key AS BLOB))"));
    TRY(take_out(expired.bind(clock_.unix_millis())));
    for (std::int64_t taken = 1; bytes_ > kMostBytes && taken != 0;) {
      TRY(Statement oldest,
          database.prepare("DELETE FROM cache WHERE seq IN (SELECT seq FROM cache ORDER BY seq LIMIT 256)"
                           " RETURNING LENGTH(value) + LENGTH(CAST(key AS BLOB))"));
      TRY(taken, take_out(oldest));
    }
    return ok();
  }

  Store store_;
  const Clock& clock_;
  std::int64_t bytes_ = -1;  // not known yet
};

class CacheInSqlite final : public Cache {
 public:
  CacheInSqlite(const std::string& directory, Machinery& machinery)
      : store_(directory, machinery.clock), disk_(machinery.sessions.loop()) {}

  bool takes_turns() const override { return true; }
  Task<Status> probe() override {
    co_return co_await disk_.run([this] { return store_.open(); });
  }
  Task<Status> forget(const std::string& tenant) override {
    co_return co_await disk_.run([&] { return store_.forget(tenant); });
  }

 protected:
  Task<Result<std::optional<std::string>>> get(const CacheKey& key) override {
    co_return co_await disk_.run([&] { return store_.get(key); });
  }
  Task<Status> set(const CacheKey& key, std::string value, Ttl ttl) override {
    CO_TRY(co_await disk_.run([&] { return store_.set(key, value, ttl, false); }));
    co_return ok();
  }
  Task<Result<bool>> set_if_absent(const CacheKey& key, std::string value, Ttl ttl) override {
    co_return co_await disk_.run([&] { return store_.set(key, value, ttl, true); });
  }
  Task<Result<bool>> remove(const CacheKey& key) override {
    co_return co_await disk_.run([&] { return store_.remove(key); });
  }
  Task<Result<std::int64_t>> clear(const ipc::Call&, const Scope& scope) override {
    co_return co_await disk_.run([&] { return store_.clear(scope); });
  }
  Task<Result<std::int64_t>> incr(const CacheKey& key, std::int64_t by, Ttl ttl) override {
    co_return co_await disk_.run([&] { return store_.incr(key, by, ttl); });
  }

 private:
  CacheStore store_;
  Offload disk_;
};

}  // namespace

std::unique_ptr<Adapter> make_sqlite_cache(const std::string& directory, Machinery& machinery) {
  return std::make_unique<CacheInSqlite>(directory, machinery);
}

}  // namespace sallyport::adapters

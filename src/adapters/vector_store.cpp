#include "adapters/vector_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "adapters/filter.h"
#include "adapters/vector_math.h"
#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

using ledger::Database;
using ledger::Statement;

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS vectors(tenant TEXT NOT NULL, space TEXT NOT NULL, id TEXT NOT NULL,"
    " vector BLOB NOT NULL, metadata TEXT NOT NULL, UNIQUE(tenant, space, id));";

// What a row counts for in a tenant's quota.
std::int64_t weight(std::size_t id_bytes, std::size_t vector_bytes, std::size_t metadata_bytes) {
  return static_cast<std::int64_t>(id_bytes + vector_bytes + metadata_bytes) + platform::kObjectCost;
}

bool is_worse(const VectorMatch& a, const VectorMatch& b) { return a.score > b.score; }

Error nobody_waits() { return Error::make(Code::cancelled, "nobody waits for it any more"); }

}  // namespace

VectorStore::VectorStore(const std::string& directory)
    : store_(directory, "vectors.sqlite", kSchema, Database::Access::write) {}

Status VectorStore::open() {
  TRY(store_.open());
  return ok();
}

Result<std::size_t> VectorStore::dimensions_of(Database& database, const Scope& scope) {
  TRY(Statement one, database.prepare("SELECT LENGTH(vector) FROM vectors WHERE tenant = ? AND space = ? LIMIT 1"));
  one.bind(scope.tenant).bind(scope.name);
  TRY(const bool has_row, one.step());
  return has_row ? static_cast<std::size_t>(one.integer(0)) / sizeof(float) : std::size_t{0};
}

Result<std::int64_t> VectorStore::erase(Database& database, const Scope& scope, const std::string& id) {
  TRY(Statement one, database.prepare("DELETE FROM vectors WHERE tenant = ? AND space = ? AND id = ?"
                                      " RETURNING LENGTH(vector), LENGTH(CAST(metadata AS BLOB))"));
  one.bind(scope.tenant).bind(scope.name).bind(id);
  TRY(const bool had_one, one.step());
  if (!had_one) return std::int64_t{-1};
  const std::int64_t freed =
      weight(id.size(), static_cast<std::size_t>(one.integer(0)), static_cast<std::size_t>(one.integer(1)));
  TRY(one.run());
  return freed;
}

Result<std::int64_t> VectorStore::upsert(const Scope& scope, const VectorBatch& batch) {
  return store_.transaction([&](Database& database) -> Result<std::int64_t> {
    TRY(const std::size_t there, dimensions_of(database, scope));
    if (there != 0 && there != batch.dimensions) {
      return Error::make(Code::conflict, "the namespace has vectors of " + std::to_string(there) + " dimensions");
    }
    const std::size_t stride = batch.dimensions * sizeof(float);
    std::int64_t grown = 0;
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      const std::string_view metadata = batch.metadata.empty() ? "{}" : std::string_view(batch.metadata[i]);
      TRY(const std::int64_t freed, erase(database, scope, batch.ids[i]));
      TRY(Statement insert,
          database.prepare("INSERT INTO vectors(tenant, space, id, vector, metadata) VALUES(?,?,?,?,?)"));
      insert.bind(scope.tenant).bind(scope.name).bind(batch.ids[i]);
      insert.bind(as_bytes(std::string_view(batch.vectors).substr(i * stride, stride))).bind(metadata);
      TRY(insert.run());
      grown += weight(batch.ids[i].size(), stride, metadata.size()) - std::max<std::int64_t>(0, freed);
    }
    return grown;
  });
}

Result<std::vector<VectorMatch>> VectorStore::search(const Scope& scope, const VectorQuery& query,
                                                     const GivenUp& is_given_up) {
  TRY(Database * database, store_.open());
  std::vector<float> wanted(query.dimensions);
  std::memcpy(wanted.data(), query.vector.data(), query.vector.size());
  const float own = products(wanted.data(), as_bytes(query.vector).data(), query.dimensions).self;
  TRY(Statement rows, database->prepare("SELECT vector, id, metadata FROM vectors WHERE tenant = ? AND space = ?"));
  rows.bind(scope.tenant).bind(scope.name);
  std::vector<VectorMatch> best;  // a heap, the worst in front
  for (;;) {
    auto has_row = rows.step();
    if (!has_row) return store_error(has_row.error());
    if (!*has_row) break;
    if (is_given_up) return nobody_waits();
    const ByteView vector = rows.blob(0);
    if (vector.size() != query.dimensions * sizeof(float)) {
      return Error::make(Code::conflict, "the namespace has vectors of " +
                                             std::to_string(vector.size() / sizeof(float)) + " dimensions");
    }
    const Products sums = products(wanted.data(), vector.data(), query.dimensions);
    const float length = std::sqrt(own) * std::sqrt(sums.self);
    const float score = length > 0 ? sums.dot / length : 0;
    if (best.size() == query.top_k && score <= best.front().score) continue;
    if (query.filter) {
      const auto metadata = decoder_.parse(rows.text(2));
      if (!metadata || !matches(query.filter, metadata->root())) continue;
    }
    if (best.size() == query.top_k) {
      std::pop_heap(best.begin(), best.end(), is_worse);
      best.pop_back();
    }
    best.push_back({std::string(rows.text(1)), std::string(rows.text(2)), score});
    std::push_heap(best.begin(), best.end(), is_worse);
  }
  std::sort_heap(best.begin(), best.end(), is_worse);
  return best;
}

Result<VectorStore::Removed> VectorStore::remove(const Scope& scope, const std::vector<std::string>& ids) {
  return store_.transaction([&](Database& database) -> Result<Removed> {
    Removed removed;
    for (const std::string& id : ids) {
      TRY(const std::int64_t freed, erase(database, scope, id));
      if (freed < 0) continue;
      ++removed.count;
      removed.grown -= freed;
    }
    return removed;
  });
}

Result<std::int64_t> VectorStore::stored_bytes(const std::string& tenant) {
  TRY(Database * database, store_.open());
  TRY(Statement sum, database->prepare("SELECT COALESCE(SUM(LENGTH(CAST(id AS BLOB)) + LENGTH(vector) +"
                                       " LENGTH(CAST(metadata AS BLOB))), 0), COUNT(*) FROM vectors WHERE tenant = ?"));
  auto has_row = sum.bind(tenant).step();
  if (!has_row) return store_error(has_row.error());
  return sum.integer(0) + sum.integer(1) * platform::kObjectCost;
}

Status VectorStore::forget(const std::string& tenant) {
  return store_.transaction([&](Database& database) -> Status {
    TRY(Statement all, database.prepare("DELETE FROM vectors WHERE tenant = ?"));
    return all.bind(tenant).run();
  });
}

Result<std::int64_t> VectorStore::count(const Scope& scope, wire::Value filter, const GivenUp& is_given_up) {
  TRY(Database * database, store_.open());
  TRY(Statement rows, database->prepare("SELECT metadata FROM vectors WHERE tenant = ? AND space = ?"));
  rows.bind(scope.tenant).bind(scope.name);
  std::int64_t found = 0;
  for (;;) {
    auto has_row = rows.step();
    if (!has_row) return store_error(has_row.error());
    if (!*has_row) return found;
    if (is_given_up) return nobody_waits();
    if (filter) {
      const auto metadata = decoder_.parse(rows.text(0));
      if (!metadata || !matches(filter, metadata->root())) continue;
    }
    ++found;
  }
}

Result<VectorBatch> VectorStore::get(const Scope& scope, const std::vector<std::string>& ids) {
  TRY(Database * database, store_.open());
  VectorBatch batch;
  std::size_t bytes = 0;
  for (const std::string& id : ids) {
    TRY(Statement one,
        database->prepare("SELECT vector, metadata FROM vectors WHERE tenant = ? AND space = ? AND id = ?"));
    one.bind(scope.tenant).bind(scope.name).bind(id);
    auto has_row = one.step();
    if (!has_row) return store_error(has_row.error());
    if (!*has_row) continue;
    bytes += id.size() + one.blob(0).size() + one.text(1).size();
    if (bytes > platform::kMaxValueBytes) {
      return Error::make(Code::payload_too_large, "that is more than 64 MiB at once: ask for fewer ids");
    }
    batch.ids.push_back(id);
    batch.vectors.append(as_text(one.blob(0)));
    batch.metadata.emplace_back(one.text(1));
    batch.dimensions = one.blob(0).size() / sizeof(float);
  }
  return batch;
}

}  // namespace sallyport::adapters

// The vectors on the disk; used by one thread only.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/store.h"

namespace sallyport::adapters {

struct VectorBatch {
  std::vector<std::string> ids;
  std::vector<std::string> metadata;  // JSON objects; empty: {} for each
  std::string vectors;                // little-endian float32, one after the other
  std::size_t dimensions = 0;
};

struct VectorMatch {
  std::string id, metadata;
  float score = 0;
};

struct VectorQuery {
  std::string vector;
  std::size_t dimensions = 0, top_k = 10;
  wire::Value filter;
};

using GivenUp = std::atomic<bool>;  // set by another thread

class VectorStore {
 public:
  explicit VectorStore(const std::string& directory);

  Status open();
  // By how many bytes the store has grown. CONFLICT if the namespace has vectors of another size.
  Result<std::int64_t> upsert(const Scope& scope, const VectorBatch& batch);
  // These two look at every vector of the namespace, and CANCELLED stops them.
  Result<std::vector<VectorMatch>> search(const Scope& scope, const VectorQuery& query, const GivenUp& is_given_up);
  Result<std::int64_t> count(const Scope& scope, wire::Value filter, const GivenUp& is_given_up);
  struct Removed {
    std::int64_t count = 0, grown = 0;
  };
  Result<Removed> remove(const Scope& scope, const std::vector<std::string>& ids);
  Result<std::int64_t> stored_bytes(const std::string& tenant);
  Status forget(const std::string& tenant);
  // Those that are there, in the order of `ids`.
  Result<VectorBatch> get(const Scope& scope, const std::vector<std::string>& ids);

 private:
  Result<std::size_t> dimensions_of(ledger::Database& database, const Scope& scope);
  Result<std::int64_t> erase(ledger::Database& database, const Scope& scope, const std::string& id);

  Store store_;
  wire::Decoder decoder_;
};

}  // namespace sallyport::adapters

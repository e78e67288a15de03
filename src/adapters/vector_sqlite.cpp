#include "adapters/vector_sqlite.h"

#include "adapters/bulk.h"
#include "adapters/filter.h"
#include "adapters/offload.h"
#include "adapters/vector_math.h"
#include "adapters/vector_store.h"
#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::JsonWriter;

std::vector<std::string> texts_of(wire::Value array) {
  std::vector<std::string> all;
  for (const wire::Value item : array.items()) all.emplace_back(item.as_string().value_or(""));
  return all;
}

// Exactly `count` vectors, all of them numbers.
Task<Result<std::string>> take_vectors(Call& call, wire::Value named, std::size_t count, std::size_t dimensions) {
  const std::size_t expected = count * dimensions * sizeof(float);
  if (expected > platform::kMaxValueBytes) {
    co_return Error::make(Code::payload_too_large, "that is more than one call may carry; send fewer vectors");
  }
  if (named.is_string()) co_return Error::invalid_param("params.vectors", "must be a stream of little-endian float32");
  CO_TRY(std::string bytes, co_await take_value(call, named, expected));
  if (bytes.size() != expected) co_return Error::invalid_param("params.vectors", "must be ids x dimensions float32");
  if (!are_comparable(as_bytes(bytes).data(), count * dimensions)) {
    co_return Error::invalid_param("params.vectors", "must hold numbers from -1e15 to 1e15 only");
  }
  co_return bytes;
}

// Set once nobody waits for the call.
std::shared_ptr<GivenUp> watch_for_end(Call& call) {
  auto is_given_up = std::make_shared<GivenUp>(call.is_given_up());
  call.on_cancel([is_given_up] { *is_given_up = true; });
  return is_given_up;
}

class SqliteVectors final : public Adapter {
 public:
  SqliteVectors(const std::string& directory, Machinery& machinery)
      : store_(directory), disk_(machinery.sessions.loop()) {}

  bool takes_turns() const override { return true; }
  Task<Status> probe() override {
    co_return co_await disk_.run([this] { return store_.open(); });
  }

  Task<Result<std::int64_t>> stored_bytes(const std::string& tenant) override {
    co_return co_await disk_.run([&] { return store_.stored_bytes(tenant); });
  }
  Task<Status> forget(const std::string& tenant) override {
    co_return co_await disk_.run([&] { return store_.forget(tenant); });
  }

  Task<Reply> handle(std::string_view verb, Call& call) override {
    CO_TRY(const Scope scope, scope_of(call, "namespace"));
    if (verb == "upsert") co_return co_await upsert(call, scope);
    if (verb == "search") co_return co_await search(call, scope);
    if (verb == "get") co_return co_await get(call, scope);
    if (verb == "delete") {
      const auto ids = texts_of(call.params().get("ids"));
      CO_TRY(const auto removed, co_await disk_.run([&] { return store_.remove(scope, ids); }));
      co_return call.result([&](JsonWriter& json) {
        json.begin_object().member("deleted", removed.count).member("stored_bytes", removed.grown).end_object();
      });
    }
    if (verb == "count") {
      const wire::Value filter = call.params().get("filter");
      CO_TRY(check_filter(filter));
      const auto is_given_up = watch_for_end(call);
      CO_TRY(const std::int64_t count, co_await disk_.run([&] { return store_.count(scope, filter, *is_given_up); }));
      co_return call.result([&](JsonWriter& json) { json.begin_object().member("count", count).end_object(); });
    }
    co_return Error::make(Code::method_not_found, "no such method");
  }

 private:
  Task<Reply> upsert(Call& call, const Scope& scope) {
    const wire::Value params = call.params();
    VectorBatch batch;
    batch.ids = texts_of(params.get("ids"));
    batch.dimensions = static_cast<std::size_t>(params.get("dimensions").as_int().value_or(0));
    for (const wire::Value item : params.get("metadata").items()) {
      if (!item.is_object()) co_return Error::invalid_param("params.metadata", "must hold objects");
      if (item.depth() > wire::kMaxKeptDepth) co_return Error::invalid_param("params.metadata", "is nested too deep");
      batch.metadata.push_back(item.to_json());
    }
    if (!batch.metadata.empty() && batch.metadata.size() != batch.ids.size()) {
      co_return Error::invalid_param("params.metadata", "must have one object for each id");
    }
    for (const std::string& id : batch.ids) {
      if (id.empty() || id.size() > std::size_t{platform::kMaxKeyBytes}) {
        co_return Error::invalid_param("params.ids", "must be from 1 to 160 bytes each");
      }
    }
    auto vectors = co_await take_vectors(call, params.get("vectors"), batch.ids.size(), batch.dimensions);
    if (!vectors) co_return nothing_stored(std::move(vectors).error());
    if (call.is_given_up()) co_return nothing_stored(call.why_given_up());
    batch.vectors = std::move(*vectors);
    CO_TRY(const std::int64_t grown, co_await disk_.run([&] { return store_.upsert(scope, batch); }));
    co_return call.result([&](JsonWriter& json) {
      json.begin_object().member("upserted", batch.ids.size()).member("stored_bytes", grown).end_object();
    });
  }

  Task<Reply> search(Call& call, const Scope& scope) {
    const wire::Value params = call.params();
    VectorQuery query;
    query.dimensions = static_cast<std::size_t>(params.get("dimensions").as_int().value_or(0));
    query.top_k = static_cast<std::size_t>(params.get("top_k").as_int().value_or(10));
    query.filter = params.get("filter");
    CO_TRY(check_filter(query.filter));
    CO_TRY(query.vector, co_await take_vectors(call, params.get("vector"), 1, query.dimensions));
    const auto is_given_up = watch_for_end(call);
    CO_TRY(const auto matches, co_await disk_.run([&] { return store_.search(scope, query, *is_given_up); }));
    Reply reply = call.result([&](JsonWriter& json) {
      json.begin_object().key("matches").begin_array();
      for (const VectorMatch& match : matches) {
        json.begin_object().member("id", match.id).member("score", double{match.score});
        json.key("metadata").raw(match.metadata).end_object();
      }
      json.end_array().end_object();
    });
    if (reply.error() && reply.error()->code == Code::payload_too_large) {
      co_return Error::make(Code::payload_too_large,
                            "the matches and their metadata are more than one answer holds; ask for fewer with top_k");
    }
    co_return reply;
  }

  Task<Reply> get(Call& call, const Scope& scope) {
    const auto ids = texts_of(call.params().get("ids"));
    CO_TRY(VectorBatch batch, co_await disk_.run([&] { return store_.get(scope, ids); }));
    co_return reply_with_stream(call, "vectors", std::move(batch.vectors), [&](JsonWriter& json) {
      json.member("dimensions", batch.dimensions).key("items").begin_array();
      for (std::size_t i = 0; i < batch.ids.size(); ++i) {
        json.begin_object().member("id", batch.ids[i]).key("metadata").raw(batch.metadata[i]).end_object();
      }
      json.end_array();
    });
  }

  VectorStore store_;
  Offload disk_;
};

}  // namespace

std::unique_ptr<Adapter> make_sqlite_vectors(const std::string& directory, Machinery& machinery) {
  return std::make_unique<SqliteVectors>(directory, machinery);
}

}  // namespace sallyport::adapters

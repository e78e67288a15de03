#include "adapters/noop.h"

namespace sallyport::adapters {
namespace {

struct Row {
  std::string_view method;
  std::string_view members;  // each with a comma behind it
};

constexpr Row kAnswers[] = {
    {"storage.read", R"("found":false,)"},
    {"storage.write", R"("size":0,"stored_bytes":0,)"},
    {"storage.delete", R"("deleted":false,"stored_bytes":0,)"},
    {"storage.list", R"("objects":[],"more":false,)"},
    {"storage.stat", R"("found":false,)"},
    {"cache.get", R"("found":false,)"},
    {"cache.set", R"("set":false,)"},
    {"cache.set_if_absent", R"("set":false,)"},
    {"cache.delete", R"("deleted":false,)"},
    {"cache.clear", R"("deleted":0,)"},
    {"cache.incr", R"("value":0,)"},
    {"vector.upsert", R"("upserted":0,"stored_bytes":0,)"},
    {"vector.search", R"("matches":[],)"},
    {"vector.delete", R"("deleted":0,"stored_bytes":0,)"},
    {"vector.count", R"("count":0,)"},
    {"vector.get", R"("items":[],)"},
    {"llm.complete", R"("text":"","is_model":false,)"},
    {"llm.stream", R"("text":"","is_model":false,)"},
    {"embeddings.embed", R"("count":0,"dimensions":0,)"},
    {"embeddings.embed_batch", R"("count":0,"dimensions":0,)"},
    {"embeddings.dimensions", R"("dimensions":0,)"},
    {"events.publish", R"("receivers":0,)"},
    {"events.subscribe", ""},
};

}  // namespace

ipc::Reply answer_noop(ipc::Call& call, const std::string& reason) {
  for (const Row& row : kAnswers) {
    if (row.method != call.message().method) continue;
    return call.result([&](wire::JsonWriter& json) {
      json.verbatim("{").verbatim(row.members).verbatim(R"("noop":true,"reason":)").value(reason).verbatim("}");
    });
  }
  return Error::make(Code::method_not_found, "no such method");
}

}  // namespace sallyport::adapters

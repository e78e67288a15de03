#include "adapters/adapter.h"

#include "adapters/cache.h"
#include "adapters/events.h"
#include "adapters/http.h"
#include "adapters/llm.h"
#include "adapters/redis.h"
#include "adapters/storage_files.h"
#include "adapters/third_party.h"
#include "adapters/vector_sqlite.h"
#include "egress/link.h"

namespace sallyport::adapters {
namespace {

// The warden, who has the ledger, hears of every connection.
std::shared_ptr<egress::Link> make_egress(Machinery& machinery) {
  return std::make_shared<egress::Link>(
      machinery.sessions.loop(), machinery.log, machinery.egress_hosts, [&machinery](const egress::Report& report) {
        machinery.tell_warden("adapters.connection", wire::to_json([&](wire::JsonWriter& json) {
                                json.begin_object().member("adapter", report.container);
                                egress::write_report(json.key("report"), report);
                                json.end_object();
                              }));
      });
}

}  // namespace

Result<Scope> scope_of(ipc::Call& call, std::string_view field) {
  Scope scope{std::string(call.params().get("$tenant").as_string().value_or("")),
              std::string(call.params().get(field).as_string().value_or(""))};
  if (scope.tenant.empty()) return Error::make(Code::invalid_request, "the call names no tenant");
  return scope;
}

Error backend_down(std::string detail) {
  Error error = Error::make(Code::unavailable, "the backend cannot be reached; try again", std::move(detail));
  error.retryable = true;
  return error;
}

Task<Result<std::int64_t>> Adapter::stored_bytes(const std::string& tenant) {
  static_cast<void>(tenant);
  return Task<Result<std::int64_t>>::ready(Error::make(Code::unimplemented, "this adapter cannot be counted"));
}

Task<Status> Adapter::forget(const std::string& tenant) {
  static_cast<void>(tenant);
  return Task<Status>::ready(Error::make(Code::unimplemented, "this adapter cannot forget a tenant"));
}

Error nothing_stored(Error error) {
  error.details_json =
      error.details_json.empty() ? R"({"stored_bytes":0})" : R"({"stored_bytes":0,)" + error.details_json.substr(1);
  return error;
}

Result<std::unique_ptr<Adapter>> make_adapter(platform::Role role, const std::string& implementation,
                                              const platform::Config& config, Machinery& machinery) {
  using platform::Role;
  if (config.third_party.contains(implementation)) {
    if (!machinery.cells) {
      machinery.cells = std::make_shared<containers::Cells>(machinery.sessions.loop(), machinery.log);
    }
    if (!config.third_party.at(implementation).hosts.empty() && !machinery.egress) {
      machinery.egress = make_egress(machinery);
    }
    auto& party = machinery.third_party[implementation];
    if (!party) party = std::make_shared<ThirdParty>(implementation, config, machinery, machinery.cells);
    return make_third_party(role, party, machinery);
  }
  if (implementation == "redis" && !machinery.redis) machinery.redis = std::make_shared<Redis>(config, machinery);
  if (implementation == "openai" && !machinery.http) {
    machinery.http = std::make_shared<Http>(machinery.sessions.loop());
  }
  const platform::Options& options = config.options_of(implementation);
  const auto directory = [&](const char* otherwise) {
    return options.directory.empty() ? machinery.state_dir + otherwise : options.directory;
  };
  const auto is = [&](Role wanted, std::string_view name) { return role == wanted && implementation == name; };
  if (is(Role::storage, "files")) return make_file_storage(directory("/storage"), machinery);
  if (is(Role::cache, "memory")) return make_memory_cache(options, machinery);
  if (is(Role::cache, "sqlite")) return make_sqlite_cache(directory(""), machinery);
  if (is(Role::cache, "redis")) return make_redis_cache(machinery.redis);
  if (is(Role::vector, "sqlite")) return make_sqlite_vectors(directory(""), machinery);
  if (is(Role::llm, "echo")) return make_echo_llm();
  if (is(Role::llm, "openai")) return make_openai_llm(config, machinery);
  if (is(Role::embeddings, "hashing")) return make_hashing_embeddings(options);
  if (is(Role::embeddings, "openai")) return make_openai_embeddings(config, machinery);
  if (is(Role::events, "memory")) return make_memory_events();
  if (is(Role::events, "redis")) return make_redis_events(config, machinery);
  return Error::make(Code::unimplemented, "there is no such implementation");
}

}  // namespace sallyport::adapters

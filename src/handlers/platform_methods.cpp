// storage.* cache.* vector.* llm.* embeddings.* events.*, log.write, platform.init, platform.status: decided here,
// done by the adapters. The tenant and the name that permissions were checked for are written by the warden;
// what a worker says about who it is has no place in the parameters.
#include "handlers/method.h"
#include "handlers/platform_gate.h"
#include "platform/limits.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::Reply;
using platform::Operation;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

// ---- what the methods take ----

constexpr Field kBucket{.name = "bucket", .type = Type::string, .least = 1, .most = platform::kMaxNameBytes};
constexpr Field kNamespace{.name = "namespace", .type = Type::string, .least = 1, .most = platform::kMaxNameBytes};
constexpr Field kModel{.name = "model", .type = Type::string, .least = 1, .most = platform::kMaxNameBytes};
constexpr Field kKey{.name = "key", .type = Type::string, .required = true, .least = 1, .most = platform::kMaxKeyBytes};
constexpr Field kValue{.name = "value", .type = Type::any, .required = true};
constexpr Field kSize{.name = "size", .type = Type::integer, .least = 0, .most = platform::kMaxObjectBytes};
constexpr Field kValueSize{
    .name = "size", .type = Type::integer, .least = 0, .most = std::int64_t{platform::kMaxValueBytes}};
constexpr Field kTtl{.name = "ttl_ms", .type = Type::integer, .least = 1, .most = platform::kMaxTtlMs};
constexpr Field kIds{
    .name = "ids", .type = Type::string_array, .required = true, .least = 1, .most = platform::kMaxVectorsPerCall};
constexpr Field kDimensions{
    .name = "dimensions", .type = Type::integer, .required = true, .least = 1, .most = platform::kMaxDimensions};
constexpr Field kVectors{.name = "vectors", .type = Type::object, .required = true};
constexpr Field kFilter{.name = "filter", .type = Type::object};
constexpr Field kMaxTokens{.name = "max_tokens", .type = Type::integer, .least = 1, .most = 1'000'000};
constexpr Field kMessages{.name = "messages", .type = Type::array, .required = true, .least = 1, .most = 1'000};
constexpr Field kTemperature{.name = "temperature", .type = Type::number};

constexpr Field kRead[] = {kBucket, kKey, {.name = "stream", .type = Type::boolean}};
constexpr Field kWrite[] = {kBucket, kKey, kValue, kSize};
constexpr Field kObject[] = {kBucket, kKey};
constexpr Field kList[] = {kBucket,
                           {.name = "prefix", .type = Type::string, .most = platform::kMaxKeyBytes},
                           {.name = "after", .type = Type::string, .most = platform::kMaxKeyBytes},
                           {.name = "limit", .type = Type::integer, .least = 1, .most = platform::kMaxListed}};
constexpr Field kEntry[] = {kNamespace, kKey};
constexpr Field kSet[] = {kNamespace, kKey, kValue, kValueSize, kTtl};
constexpr Field kClear[] = {kNamespace};
constexpr Field kIncr[] = {kNamespace, kKey, {.name = "by", .type = Type::integer}, kTtl};
constexpr Field kUpsert[] = {kNamespace,
                             kIds,
                             kDimensions,
                             kVectors,
                             {.name = "metadata", .type = Type::array, .most = platform::kMaxVectorsPerCall}};
constexpr Field kSearch[] = {kNamespace,
                             kDimensions,
                             kFilter,
                             {.name = "vector", .type = Type::object, .required = true},
                             {.name = "top_k", .type = Type::integer, .least = 1, .most = platform::kMaxTopK}};
constexpr Field kVectorIds[] = {kNamespace, kIds};
constexpr Field kCount[] = {kNamespace, kFilter};
constexpr Field kComplete[] = {kModel, kMessages, kMaxTokens, kTemperature};
constexpr Field kEmbed[] = {kModel, {.name = "text", .type = Type::string, .required = true}};
constexpr Field kEmbedBatch[] = {
    kModel, {.name = "texts", .type = Type::string_array, .required = true, .least = 1, .most = platform::kMaxTexts}};
constexpr Field kModelOnly[] = {kModel};
constexpr Field kPublish[] = {
    {.name = "topic", .type = Type::string, .required = true, .least = 1, .most = platform::kMaxTopicBytes},
    {.name = "payload", .type = Type::any, .required = true}};
constexpr Field kSubscribe[] = {
    {.name = "topics", .type = Type::string_array, .required = true, .least = 1, .most = 64}};

// ---- passing on ----

// What the warden writes itself.
constexpr std::string_view kDecidedHere[] = {"$tenant", "bucket", "namespace", "model", "topic", "max_tokens"};

// The link keeps results as their text, since most are only passed on. For whoever must look into one.
class OpenedResult {
 public:
  OpenedResult(const wire::Message& answer, wire::Decoder& decoder) : value_(answer.result) {
    const auto text = answer.result.as_raw();
    auto parsed = text ? decoder.parse(*text) : Result<wire::Document>(wire::Document());
    if (!text || !parsed) return;
    document_ = std::move(*parsed);
    value_ = document_.root();
  }
  wire::Value value() const { return value_; }

 private:
  wire::Document document_;
  wire::Value value_;
};

void settle(PlatformSpending& spending, const Operation& operation, const PlatformAsk& asked,
            const Result<wire::Message>& answer, wire::Decoder& decoder) {
  if (!spending.is_open()) return;
  // UNAVAILABLE: they ended over it. With any other error it was not sent.
  if (!answer) return answer.error().code == Code::unavailable ? spending.settle_as_reserved() : spending.settle(0);
  if (answer->error) return spending.settle_by(operation, *answer->error);
  const OpenedResult result(*answer, decoder);
  spending.settle_by(operation, asked, result.value());
}

// Who asks, and for what: all that is decided before anybody waits.
struct Decided {
  PlatformTenant tenant;
  PlatformAsk ask;
};

Result<Decided> decide(const Operation& operation, const Call& call, const RequestContext& context, Host& host) {
  TRY(PlatformTenant tenant, platform_tenant(context, host));
  TRY(PlatformAsk ask, check_platform_call(operation, tenant, call.message(), host.adapters.config()));
  return Decided{std::move(tenant), std::move(ask)};
}

Result<std::string> params_of(Call& call, ipc::Session& to, const Operation& operation, const Decided& decided) {
  const auto add = [&](JsonWriter& json) {
    json.verbatim(R"("$tenant":)").value(decided.tenant.name);
    if (!decided.ask.scope.empty()) json.member(operation.scope, decided.ask.scope);
    if (decided.ask.max_tokens != 0) json.member("max_tokens", decided.ask.max_tokens);
  };
  return ipc::forward_params(call, to, kDecidedHere, std::ref(add));
}

// What it keeps is named once and stays where it is: its frame, which every call of the platform makes anew, then is of
// a size that the allocator has at hand.
Task<Reply> operate(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  const Operation& operation = *platform::find_operation(permit.method());
  auto decided = decide(operation, call, context, host);
  if (!decided) co_return std::move(decided).error();
  const PlatformAsk& asked = decided->ask;
  const bool has_room = co_await call.await_room(asked.answer_bytes);
  if (!has_room) co_return Error::make(Code::cancelled, "given up before there was room for its answer");
  auto share = host.adapters.admissions().admit(decided->tenant.name, call.message().bytes, asked.streams);
  if (!share) co_return std::move(share).error();
  PlatformSpending spending(host.ledger, quota_key(decided->tenant));
  CO_TRY(spending.reserve(operation, asked, decided->tenant.quotas));
  auto session = co_await host.adapters.session();
  if (!session) co_return std::move(session).error();
  if (call.is_answered()) co_return Error::make(Code::cancelled, "the request ended before it began");
  auto params = params_of(call, **session, operation, *decided);
  if (!params) co_return std::move(params).error();
  ipc::Asking asking(call, *session, permit.method(), *params,
                     operation.has_events ? ipc::Events::relayed : ipc::Events::refused);
  auto& answer = co_await asking;
  wire::Decoder& decoder = (*session)->shared().decoder();
  settle(spending, operation, asked, answer, decoder);
  if (!answer) {
    answer.error().retryable = true;
    co_return std::move(answer).error();
  }
  Reply reply = ipc::forward_result(call, **session, *answer);
  decoder.recycle(std::move(answer->document));
  co_return reply;
}

// ---- log ----

constexpr Field kLog[] = {
    {.name = "level", .type = Type::string},
    {.name = "message", .type = Type::string, .required = true, .least = 1, .most = platform::kMaxLogBytes},
    {.name = "fields", .type = Type::object}};

Task<Reply> log_line(const Permit&, Call& call, RequestContext& context, Host& host) {
  const auto tenant = platform_tenant(context, host);
  if (!tenant) return now(tenant.error());
  const policy::AdapterGrant* grant = tenant->grant("log");
  if (grant == nullptr) return now(Error::make(Code::policy_denied, "the profile does not grant log", tenant->name));
  PlatformSpending spending(host.ledger, quota_key(*tenant));
  static constexpr Operation kNothing{"log.write", platform::Role::events, "", Millis(0)};
  if (const Status reserved = spending.reserve(kNothing, {}, tenant->quotas); !reserved) return now(reserved.error());
  const std::string level = text(call.params().get("level"));
  const wire::Value given = call.params().get("fields");
  const std::string fields = given ? given.to_json() : "{}";
  if (fields.size() > std::size_t{platform::kMaxLogBytes}) {
    return now(Error::make(Code::payload_too_large,
                           "'fields' must have at most " + std::to_string(platform::kMaxLogBytes) + " bytes as JSON"));
  }
  const auto write = [&](auto&& line) {
    line("worker says", {{"principal", context.principal.to_string()},
                         {"message", text(call.params().get("message"))},
                         {"fields", fields}});
  };
  const Log& log = host.sessions.log();
  if (level.empty() || level == "info") {
    write([&](auto event, Log::Fields all) { log.info(event, all); });
  } else if (level == "debug") {
    write([&](auto event, Log::Fields all) { log.debug(event, all); });
  } else if (level == "warn") {
    write([&](auto event, Log::Fields all) { log.warn(event, all); });
  } else if (level == "error") {
    write([&](auto event, Log::Fields all) { log.error(event, all); });
  } else {
    return now(Error::invalid_param("params.level", "must be debug, info, warn or error"));
  }
  return now(call.result([](JsonWriter& json) { json.raw(R"({"logged":true})"); }));
}

// ---- init and status ----

// What the adapters say about themselves or a tenant; what went wrong there is an error here.
Task<Result<wire::Message>> ask_adapters(Call& call, Host& host, std::string_view method, std::string_view params) {
  CO_TRY(const std::shared_ptr<ipc::Session> session, co_await host.adapters.session());
  ipc::Asking asking(call, session, method, params);
  auto& answer = co_await asking;
  if (answer && answer->error) co_return *answer->error;
  co_return std::move(answer);
}

// Storage in the worker is as good as its workspace.
void project_files(JsonWriter& json, const PlatformTenant& tenant, const platform::Config& config) {
  if (!tenant.workspace.empty()) {
    json.member("state", "ready").member("implementation", "files");
    json.member("directory", tenant.workspace + std::string(platform::kWorkerStorage));
    return;
  }
  json.member("state", config.is_init_failure_an_error ? "failed" : "noop");
  json.member("reason", "storage runs in the worker, and this container has no workspace to keep it in");
}

// What a worker may know of an adapter: what it is and what it may ask of it; no address, no credential.
void project(JsonWriter& json, platform::Role role, const PlatformTenant& tenant, wire::Value state,
             const platform::Config& config) {
  const policy::AdapterGrant* grant = tenant.grant(platform::to_string(role));
  json.begin_object();
  if (grant == nullptr) {
    json.member("state", "denied").member("reason", "the profile does not grant it").end_object();
    return;
  }
  const bool is_local = is_in_worker(tenant, role, config);
  json.member("placement", is_local ? "worker" : "host");
  if (is_local && role == platform::Role::storage) {
    project_files(json, tenant, config);
  } else {
    json.member("state", state.get("state"));
    for (const char* name : {"implementation", "reason", "is_model", "dimensions"}) {
      if (const wire::Value value = state.get(name)) json.member(name, value);
    }
  }
  if (role == platform::Role::llm || role == platform::Role::embeddings) {
    json.key("models").begin_array();
    for (const wire::Value model : state.get("models").items()) {
      if (policy::matches_any(grant->names, text(model))) json.value(model);
    }
    json.end_array().member("max_tokens", grant->max_tokens);
  }
  json.member("max_bytes", grant->max_bytes).member("may_write", grant->may_write).end_object();
}

constexpr Field kInit[] = {{.name = "protocol", .type = Type::integer, .required = true},
                           {.name = "config_hash", .type = Type::string, .most = 64}};

Task<Reply> init(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (call.params().get("protocol").as_int() != platform::kProtocolVersion) {
    co_return Error::make(Code::conflict, "this host speaks version " + std::to_string(platform::kProtocolVersion) +
                                              " of the platform's protocol, the worker another");
  }
  const std::string hash = host.adapters.config_hash();
  if (const wire::Value known = call.params().get("config_hash"); known && text(known) != hash) {
    co_return Error::make(Code::conflict, "the platform's configuration has changed; initialise again");
  }
  CO_TRY(const wire::Message answer, co_await ask_adapters(call, host, "adapters.state", "{}"));
  // Not before: profiles may be read anew while we wait.
  CO_TRY(const PlatformTenant tenant, platform_tenant(context, host));
  const OpenedResult state(answer, host.sessions.decoder());
  co_return call.result([&](JsonWriter& json) {
    json.begin_object().member("protocol", platform::kProtocolVersion).member("config_hash", hash);
    json.member("tenant", tenant.name).key("adapters").begin_object();
    for (const platform::Role role : platform::kRoles) {
      json.key(platform::to_string(role));
      project(json, role, tenant, state.value().get("adapters").get(platform::to_string(role)), host.adapters.config());
    }
    json.key("log").begin_object().member("state", tenant.grant("log") != nullptr ? "ready" : "denied").end_object();
    json.end_object().end_object();
  });
}

void write_quota(JsonWriter& json, Host& host, const std::string& key, std::string_view name,
                 const std::optional<std::int64_t>& limit, Millis window) {
  if (!limit) return;
  const ledger::QuotaState state =
      ledger::roll_window({*limit, window}, host.ledger.quotas().state(key, name), host.clock.unix_millis());
  json.key(name).begin_object().member("limit", *limit).member("used", state.used);
  json.member("reserved", state.reserved).end_object();
}

void write_quotas(JsonWriter& json, Host& host, const PlatformTenant& tenant) {
  const std::string key = quota_key(tenant);
  json.begin_object().member("tenant", tenant.name);
  write_quota(json, host, key, kStorageBytes, tenant.quotas.storage_bytes, Millis(0));
  write_quota(json, host, key, "tokens_per_day", tenant.quotas.tokens_per_day, kDay);
  write_quota(json, host, key, "requests_per_minute", tenant.quotas.requests_per_minute, kMinute);
  json.end_object();
}

constexpr Field kStatus[] = {{.name = "probe", .type = Type::boolean}};

// The host sees all tenants that profiles and containers make, a container only its own.
std::vector<PlatformTenant> tenants_for(const RequestContext& context, Host& host, const PlatformTenant& own) {
  if (!context.principal.is_host()) return {own};
  std::map<std::string, PlatformTenant> all;
  for (const auto& [name, profile] : host.profiles.all()) {
    if (profile.adapters.adapters.empty() || profile.adapters.tenant != policy::Tenant::profile) continue;
    PlatformTenant tenant = tenant_of(profile, {}, host);
    all.emplace(tenant.name, std::move(tenant));
  }
  for (const auto& [id, container] : host.containers.all()) {
    RequestContext of_container;
    of_container.principal = Principal::container(id);
    of_container.container_id = id;
    if (auto tenant = platform_tenant(of_container, host)) all.emplace(tenant->name, std::move(*tenant));
  }
  std::vector<PlatformTenant> tenants;
  for (auto& [name, tenant] : all) tenants.push_back(std::move(tenant));
  return tenants;
}

Task<Reply> status(const Permit&, Call& call, RequestContext& context, Host& host) {
  const bool is_host = context.principal.is_host();
  const bool probes = is_host && call.params().get("probe").as_bool().value_or(false);
  const std::string_view params = probes ? R"({"probe":true})" : "{}";
  CO_TRY(const wire::Message answer, co_await ask_adapters(call, host, "adapters.state", params));
  CO_TRY(const PlatformTenant own, platform_tenant(context, host));
  const OpenedResult state(answer, host.sessions.decoder());
  co_return call.result([&](JsonWriter& json) {
    json.begin_object().member("config_hash", host.adapters.config_hash()).key("adapters");
    if (is_host) {
      json.value(state.value().get("adapters")).member("pid", host.adapters.pid());
    } else {
      json.begin_object();
      for (const platform::Role role : platform::kRoles) {
        json.key(platform::to_string(role));
        project(json, role, own, state.value().get("adapters").get(platform::to_string(role)), host.adapters.config());
      }
      json.end_object();
    }
    json.key("quotas").begin_array();
    for (const PlatformTenant& tenant : tenants_for(context, host, own)) write_quotas(json, host, tenant);
    json.end_array().end_object();
  });
}

std::string about(const std::string& tenant) {
  return wire::to_json([&](JsonWriter& json) { json.begin_object().member("$tenant", tenant).end_object(); });
}

constexpr Field kTenant[] = {{.name = "tenant", .type = Type::string, .required = true, .least = 1, .most = 128}};

// What a tenant has stored, counted where it lies: for what was lost count of when somebody died over a write.
Task<Reply> recount(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (!context.principal.is_host()) co_return Error::make(Code::policy_denied, "only the host counts anew");
  const std::string tenant = text(call.params().get("tenant"));
  const std::string key = quota_key({.name = tenant, .quotas = {}});
  ledger::Quotas& quotas = host.ledger.quotas();
  const ledger::QuotaState before = quotas.state(key, kStorageBytes);
  const std::string params = about(tenant);
  const auto answer = co_await ask_adapters(call, host, "adapters.stored", params);
  if (!answer) co_return answer.error();
  const OpenedResult result(*answer, host.sessions.decoder());
  const auto stored = result.value().get("stored_bytes").as_int();
  if (!stored || *stored < 0) co_return Error::make(Code::unavailable, "the adapters did not say how much is stored");
  if (before.reserved != 0 || quotas.state(key, kStorageBytes) != before) {
    Error error = Error::make(Code::conflict, "something was written meanwhile; try again when nothing is");
    error.retryable = true;
    co_return error;
  }
  quotas.set_used(key, kStorageBytes, *stored);
  co_return call.result([&](JsonWriter& json) {
    json.begin_object().member("tenant", tenant).member("was", before.used).member("used", *stored).end_object();
  });
}

// What a container that was a tenant of its own left behind.
Task<Reply> forget(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (!context.principal.is_host()) co_return Error::make(Code::policy_denied, "only the host makes them forget");
  const std::string tenant = text(call.params().get("tenant"));
  if (!tenant.starts_with(kContainerTenant)) {
    co_return Error::invalid_param("params.tenant", "must be a container's: container.ID");
  }
  if (host.containers.find(tenant.substr(kContainerTenant.size()))) {
    co_return Error::make(Code::conflict, "its container is still there; remove it first");
  }
  const std::string params = about(tenant);
  const auto answer = co_await ask_adapters(call, host, "adapters.forget", params);
  if (!answer) co_return answer.error();
  host.ledger.quotas().forget(quota_key({.name = tenant, .quotas = {}}));
  co_return call.result([&](JsonWriter& json) { json.begin_object().member("tenant", tenant).end_object(); });
}

struct Row {
  std::string_view method;
  wire::Schema params;
};
constexpr Row kRows[] = {
    {"storage.read", kRead},
    {"storage.write", kWrite},
    {"storage.delete", kObject},
    {"storage.list", kList},
    {"storage.stat", kObject},
    {"cache.get", kEntry},
    {"cache.set", kSet},
    {"cache.delete", kEntry},
    {"cache.clear", kClear},
    {"cache.set_if_absent", kSet},
    {"cache.incr", kIncr},
    {"vector.upsert", kUpsert},
    {"vector.search", kSearch},
    {"vector.delete", kVectorIds},
    {"vector.count", kCount},
    {"vector.get", kVectorIds},
    {"llm.complete", kComplete},
    {"llm.stream", kComplete},
    {"embeddings.embed", kEmbed},
    {"embeddings.embed_batch", kEmbedBatch},
    {"embeddings.dimensions", kModelOnly},
    {"events.publish", kPublish},
    {"events.subscribe", kSubscribe},
};

std::vector<Method> make_methods() {
  std::vector<Method> methods = {
      {.name = "log.write", .handle = log_line, .params = kLog, .audit = Audit::buffered},
      {.name = "platform.init", .handle = init, .params = kInit},
      {.name = "platform.status", .handle = status, .params = kStatus},
      {.name = "platform.recount", .handle = recount, .params = kTenant, .audit = Audit::durable},
      {.name = "platform.forget", .handle = forget, .params = kTenant, .audit = Audit::durable},
  };
  for (const Row& row : kRows) {
    methods.push_back({.name = row.method,
                       .handle = operate,
                       .params = row.params,
                       .timeout = platform::find_operation(row.method)->timeout,
                       .audit = Audit::buffered});
  }
  return methods;
}

}  // namespace

std::span<const Method> platform_methods() {
  static const std::vector<Method> kMethods = make_methods();
  return kMethods;
}

}  // namespace sallyport::handlers

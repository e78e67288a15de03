#include "handlers/platform_gate.h"

#include <algorithm>

#include "platform/limits.h"

namespace sallyport::handlers {
namespace {

using platform::Operation;
using platform::Role;
using platform::Spends;
using wire::Value;

constexpr std::string_view kDefaultName = "default";
constexpr std::int64_t kDefaultMaxTokens = 1024;
// Tokens are counted by who makes them. Until then: text has rarely more than one for three bytes.
constexpr std::size_t kBytesPerToken = 3;
// What a backend says it used is believed between two bounds: not even long words make a token of more bytes than this,
// and no single call comes near the other.
constexpr std::size_t kMostBytesPerToken = 16;
constexpr std::int64_t kMostTokens = 1'000'000'000;

Error denied(std::string message, const PlatformTenant& tenant) {
  return Error::make(Code::policy_denied, std::move(message), "tenant " + tenant.name);
}

// The size of a value that is text, or a stream whose size must be said before.
Result<std::size_t> value_bytes(Value params) {
  const Value value = params.get("value");
  if (const auto inside = value.as_string()) return inside->size();
  if (!value.get("$stream")) return Error::invalid_param("params.value", "must be text or a stream");
  const auto size = params.get("size").as_int();
  if (!size) return Error::invalid_param("params.size", "must say how much the stream will bring");
  return static_cast<std::size_t>(*size);
}

Result<std::size_t> bytes_of(const Operation& operation, const wire::Message& message) {
  const Value params = message.params;
  if (operation.role == Role::storage || operation.role == Role::cache) {
    if (!params.get("value")) return std::size_t{0};
    return value_bytes(params);
  }
  if (operation.method == "vector.upsert") {
    const auto dimensions = static_cast<std::size_t>(params.get("dimensions").as_int().value_or(0));
    const Value metadata = params.get("metadata");
    std::size_t bytes = 0;
    // A vector without metadata has an empty object.
    for (const Value id : params.get("ids").items()) {
      bytes += id.as_string().value_or("").size() + dimensions * sizeof(float) + (metadata ? 0 : 2);
    }
    return bytes + (metadata ? metadata.to_json().size() : 0);
  }
  if (operation.role == Role::vector) return std::size_t{0};
  return message.bytes;
}

// What a write may add to what the tenant has stored.
std::int64_t stored_of(const Operation& operation, std::size_t bytes, Value params) {
  const auto content = static_cast<std::int64_t>(bytes);
  if (operation.method == "storage.write") {
    return content + static_cast<std::int64_t>(text(params.get("key")).size()) + platform::kObjectCost;
  }
  return content + static_cast<std::int64_t>(operation.method == "vector.upsert" ? params.get("ids").size() : 0) *
                       platform::kObjectCost;
}

// The text of a request to a model, or of several to embed.
std::size_t text_bytes_of(Value params) {
  std::size_t bytes = params.get("text").as_string().value_or("").size();
  for (const Value text : params.get("texts").items()) bytes += text.as_string().value_or("").size();
  for (const Value message : params.get("messages").items()) {
    bytes += message.get("content").as_string().value_or("").size();
  }
  return bytes;
}

bool may_be_third_party(Role role, const platform::Config& config) {
  const auto chosen = config.adapters.find(role);
  return chosen != config.adapters.end() &&
         std::any_of(chosen->second.begin(), chosen->second.end(),
                     [&](const std::string& name) { return config.third_party.contains(name); });
}

// The tokens of an answer. Nothing if it does not say, or what it says cannot be.
std::optional<std::int64_t> tokens_of(const Operation& operation, const PlatformAsk& ask, Value result) {
  const auto input = result.get("usage").get("input_tokens").as_int();
  const auto output =
      operation.role == Role::llm ? result.get("usage").get("output_tokens").as_int() : std::optional<std::int64_t>(0);
  if (!input || !output || *input < 0 || *output < 0 || *input > kMostTokens || *output > kMostTokens) {
    return std::nullopt;
  }
  const std::size_t text = ask.text_bytes + result.get("text").as_string().value_or("").size();
  return std::max(*input + *output, static_cast<std::int64_t>(text / kMostBytesPerToken));
}

// A subscription, which lasts, is answered with events.
std::size_t answer_bytes_of(const Operation& operation, std::int64_t max_tokens, const platform::Config& config) {
  constexpr std::size_t kMostEscaped = 6;  // of one byte, in JSON
  constexpr std::size_t kAroundText = 4096;
  if (operation.timeout.count() == 0) return 0;
  if (may_be_third_party(operation.role, config)) return wire::kMaxFrameBytes;
  if (operation.is_write) return 0;
  // A larger value is a stream, which waits for its reader.
  if (operation.role == Role::cache || operation.method == "storage.read") return platform::kInlineBytes * kMostEscaped;
  if (max_tokens == 0) return wire::kMaxFrameBytes;
  return std::min(wire::kMaxFrameBytes,
                  kAroundText + static_cast<std::size_t>(max_tokens) * kMostBytesPerToken * kMostEscaped);
}

// Names are matched as methods are. One that a profile does not name is denied.
Status check_name(const Operation& operation, const PlatformTenant& tenant, const policy::AdapterGrant& grant,
                  const std::string& name) {
  if (operation.is_write && !grant.may_write) {
    return denied("the profile grants " + std::string(platform::to_string(operation.role)) + " for reading only",
                  tenant);
  }
  if (!policy::matches_any(grant.names, name)) {
    return denied("the profile does not grant this " + std::string(operation.scope), tenant);
  }
  return ok();
}

// A pattern to listen to must lie within one that is granted: "jobs.*" within "jobs.*" or "*".
Status check_topics(const PlatformTenant& tenant, const policy::AdapterGrant& grant, Value topics) {
  for (const Value item : topics.items()) {
    // As a text: "jobs.*" begins with "jobs.", and is no name that a pattern without a star could be.
    if (!policy::matches_any(grant.names, text(item))) return denied("the profile does not grant this topic", tenant);
  }
  return ok();
}

// Where an adapter may reach a host that the profile does not allow, it is not used at all.
Status check_hosts(const Operation& operation, const PlatformTenant& tenant, const platform::Config& config) {
  if (tenant.permissions == nullptr || !tenant.permissions->allowed_hosts) return ok();
  const auto& allowed = *tenant.permissions->allowed_hosts;
  const auto chosen = config.adapters.find(operation.role);
  if (chosen == config.adapters.end()) return ok();
  for (const std::string& implementation : chosen->second) {
    for (const std::string& host : config.hosts_of(implementation)) {
      if (std::find(allowed.begin(), allowed.end(), host) != allowed.end()) continue;
      return denied("the profile does not allow the host behind this adapter", tenant);
    }
  }
  return ok();
}

std::string default_scope(const Operation& operation, const policy::AdapterGrant& grant,
                          const platform::Config& config) {
  if (operation.scope != "model") return std::string(kDefaultName);
  // The first model that the profile names; with a pattern, the first of the backend's.
  if (!grant.names.empty() && grant.names[0].find('*') == std::string::npos) return grant.names[0];
  const auto chosen = config.adapters.find(operation.role);
  if (chosen == config.adapters.end()) return std::string(kDefaultName);
  const platform::Options& options = config.options_of(chosen->second[0]);
  const auto& models = operation.role == Role::llm ? options.models : options.embedding_models;
  return models.empty() ? std::string(kDefaultName) : models.begin()->first;
}

}  // namespace

const policy::AdapterGrant* PlatformTenant::grant(std::string_view role) const {
  static const policy::AdapterGrant kEverything{
      .names = {"*"}, .max_bytes = platform::kMaxObjectBytes, .max_tokens = 1'000'000};
  if (permissions == nullptr) return &kEverything;
  const auto found = permissions->adapters.find(role);
  return found == permissions->adapters.end() ? nullptr : &found->second;
}

PlatformTenant tenant_of(const policy::Profile& profile, const std::string& container, const Host& host) {
  PlatformTenant tenant;
  tenant.permissions = &profile.adapters;
  tenant.name = profile.adapters.tenant == policy::Tenant::profile ? "profile." + profile.name
                                                                   : std::string(kContainerTenant) + container;
  const policy::AdapterQuotas& own = profile.adapters.quotas;
  const policy::AdapterQuotas& common = host.adapters.config().quotas;
  tenant.quotas.storage_bytes = own.storage_bytes ? own.storage_bytes : common.storage_bytes;
  tenant.quotas.tokens_per_day = own.tokens_per_day ? own.tokens_per_day : common.tokens_per_day;
  tenant.quotas.requests_per_minute = own.requests_per_minute ? own.requests_per_minute : common.requests_per_minute;
  return tenant;
}

Result<PlatformTenant> platform_tenant(const RequestContext& context, Host& host) {
  if (context.principal.is_host()) return PlatformTenant{.name = "host", .quotas = {}};
  const auto container = host.containers.find(context.container_id);
  if (!container) return Error::make(Code::not_found, "the container is gone");
  const policy::Profile* profile = host.profiles.find(container->config.profile);
  if (profile == nullptr) return Error::make(Code::policy_denied, "the container's profile is gone");
  PlatformTenant tenant = tenant_of(*profile, container->id, host);
  tenant.workspace = container->config.workspace;
  return tenant;
}

bool is_in_worker(const PlatformTenant& tenant, Role role, const platform::Config& config) {
  const auto placed = config.placement.find(role);
  return tenant.permissions != nullptr && placed != config.placement.end() &&
         placed->second == platform::Placement::worker;
}

Result<PlatformAsk> check_platform_call(const Operation& operation, const PlatformTenant& tenant,
                                        const wire::Message& message, const platform::Config& config) {
  const policy::AdapterGrant* grant = tenant.grant(platform::to_string(operation.role));
  if (grant == nullptr) {
    return denied("the profile does not grant " + std::string(platform::to_string(operation.role)), tenant);
  }
  if (is_in_worker(tenant, operation.role, config)) {
    return Error::make(Code::invalid_request, "this adapter runs in the worker itself");
  }
  PlatformAsk ask;
  if (operation.scope == "topics") {
    TRY(check_topics(tenant, *grant, message.params.get("topics")));
  } else {
    const Value named = message.params.get(operation.scope);
    ask.scope = named ? text(named) : default_scope(operation, *grant, config);
    TRY(check_name(operation, tenant, *grant, ask.scope));
  }
  TRY(check_hosts(operation, tenant, config));
  TRY(ask.bytes, bytes_of(operation, message));
  if (ask.bytes > grant->max_bytes) {
    return Error::make(Code::payload_too_large,
                       "the profile grants at most " + std::to_string(grant->max_bytes) + " bytes at once");
  }
  if (operation.spends == Spends::storage_bytes) ask.stored = stored_of(operation, ask.bytes, message.params);
  if (operation.spends == Spends::storage_bytes && may_be_third_party(operation.role, config)) {
    // No value is larger than the profile grants, and no call frees more than it names.
    const auto named = static_cast<std::int64_t>(std::max<std::size_t>(1, message.params.get("ids").size()));
    ask.most_freed =
        static_cast<std::int64_t>(std::min<std::uint64_t>(grant->max_bytes, platform::kMaxObjectBytes)) * named;
  }
  if (operation.spends == Spends::tokens) {
    ask.text_bytes = text_bytes_of(message.params);
    ask.tokens = static_cast<std::int64_t>(ask.bytes / kBytesPerToken + 1);
    if (operation.role == Role::llm) {
      const auto wanted = message.params.get("max_tokens").as_int();
      ask.max_tokens = std::min(wanted.value_or(kDefaultMaxTokens), grant->max_tokens);
      ask.tokens += ask.max_tokens;
    }
  }
  ask.streams = message.streams.size();
  ask.answer_bytes = answer_bytes_of(operation, ask.max_tokens, config);
  return ask;
}

Status PlatformSpending::reserve(const Operation& operation, const PlatformAsk& ask,
                                 const policy::AdapterQuotas& quotas) {
  if (quotas.requests_per_minute) {
    TRY(const auto request,
        ledger_.quotas().reserve(key_, "requests_per_minute", {*quotas.requests_per_minute, kMinute}, 1));
    ledger_.quotas().settle(request, 1);
  }
  if (operation.spends == Spends::storage_bytes && quotas.storage_bytes) {
    TRY(auto bytes, ledger_.quotas().reserve(key_, kStorageBytes, {*quotas.storage_bytes, Millis(0)}, ask.stored));
    open_.push_back(std::move(bytes));
  }
  if (operation.spends == Spends::tokens && quotas.tokens_per_day) {
    TRY(auto tokens, ledger_.quotas().reserve(key_, "tokens_per_day", {*quotas.tokens_per_day, kDay}, ask.tokens));
    open_.push_back(std::move(tokens));
  }
  return ok();
}

void PlatformSpending::settle(std::int64_t used) {
  for (const auto& reservation : std::exchange(open_, {})) ledger_.quotas().settle(reservation, used);
}

void PlatformSpending::settle_as_reserved() {
  for (const auto& reservation : std::exchange(open_, {})) ledger_.quotas().settle(reservation, reservation.amount);
}

void PlatformSpending::settle_by(const Operation& operation, const Error& error) {
  const Code code = error.code;
  wire::Decoder decoder;
  const auto details = decoder.parse(error.details_json);
  if (operation.spends == Spends::tokens) {
    // These say that no model was asked, or that it refused. After all else it may have worked.
    const bool is_free = code == Code::unavailable || code == Code::rate_limited || code == Code::invalid_params ||
                         code == Code::policy_denied || code == Code::not_found || code == Code::unimplemented ||
                         code == Code::method_not_found;
    const auto was_asked = details ? details->root().get("was_asked").as_bool() : std::nullopt;
    return was_asked.value_or(!is_free) ? settle_as_reserved() : settle(0);
  }
  const bool is_known = details && details->root().get("stored_bytes").as_int() == 0;
  const bool is_broken_off =
      code == Code::io_error || code == Code::timeout || code == Code::cancelled || code == Code::internal_error;
  return is_broken_off && !is_known ? settle_as_reserved() : settle(0);
}

void PlatformSpending::settle_by(const Operation& operation, const PlatformAsk& ask, Value result) {
  if (result.get("noop").as_bool().value_or(false)) return settle(0);
  std::optional<std::int64_t> used;
  if (operation.spends == Spends::tokens) {
    used = tokens_of(operation, ask, result);
  } else {
    used = result.get("stored_bytes").as_int();
    if (used && ask.most_freed) used = std::clamp(*used, -*ask.most_freed, ask.stored);
  }
  return used ? settle(*used) : settle_as_reserved();
}

std::string quota_key(const PlatformTenant& tenant) { return "tenant/" + tenant.name; }

}  // namespace sallyport::handlers

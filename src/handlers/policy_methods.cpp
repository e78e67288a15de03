// policy.explain
#include "handlers/method.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

constexpr std::string_view kContainer = "container/";

constexpr Field kExplain[] = {{.name = "principal", .type = Type::string, .least = 1, .most = 128},
                              {.name = "method", .type = Type::string, .required = true, .least = 1, .most = 128},
                              {.name = "params", .type = Type::object}};

// "host", "container/ID", or whoever asks.
Result<Principal> read_principal(wire::Value given, const Principal& asker) {
  if (!given) return asker;
  const std::string name = text(given);
  if (name == "host") return Principal::host();
  if (name.starts_with(kContainer) && Principal::is_container_id(name.substr(kContainer.size()))) {
    return Principal::container(name.substr(kContainer.size()));
  }
  return Error::invalid_param("params.principal", "must be host or container/ID");
}

// What is refused whatever the rules say.
std::optional<std::string> refusal_anyway(const Principal& principal, std::string_view name) {
  if (principal.is_host() && (policy::is_signal_name(name) || name == "signal.raise"))
    return "signals are raised by containers only";
  if (principal.is_host()) return std::nullopt;
  for (const std::string_view group : {"approval.", "group.", "schedule.", "container.adopt", "session.narrow",
                                       "mailbox.resolve", "platform.recount", "platform.forget"}) {
    if (name.starts_with(group)) return "it is answered at the control door only, whatever the rules say";
  }
  return std::nullopt;
}

Task<Reply> explain(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  const auto principal = read_principal(call.params().get("principal"), permit.principal());
  if (!principal) return now(principal.error());
  if (!permit.principal().is_host() && !(*principal == permit.principal())) {
    return now(Error::make(Code::policy_denied, "a container may only ask about itself"));
  }
  if (!principal->is_host() && !host.containers.find(principal->container_id())) {
    return now(Error::make(Code::not_found, "no such container"));
  }
  const std::string name = text(call.params().get("method"));
  if (name.find('*') != std::string::npos || !host.is_name(name)) {
    return now(Error::make(Code::not_found, "no method or signal has the name '" + name + "'"));
  }
  policy::Decision decision =
      host.engine.consider({*principal, context.process, name, {}, call.params().get("params")});
  if (const auto refused = refusal_anyway(*principal, name)) {
    decision = policy::Decision();
    decision.why = *refused;
  }
  const bool is_reviewed = decision.needs_deputy || decision.needs_human;
  return now(call.result([&](JsonWriter& json) {
    json.begin_object().member("principal", principal->to_string()).member("method", name);
    json.member("decision", decision.is_denied ? "deny" : is_reviewed ? "review" : "allow");
    json.member("needs_deputy", decision.needs_deputy).member("needs_human", decision.needs_human);
    json.member("rule", decision.rule).member("why", decision.why).key("also_matched").begin_array();
    for (const std::string& rule : decision.also_matched) json.value(rule);
    json.end_array();
    json.key("rates").begin_array();
    for (const policy::RateLimit& rate : decision.rates) {
      json.begin_object().member("rule", rate.rule).member("count", rate.count);
      json.member("period_ms", rate.period.count()).end_object();
    }
    json.end_array();
    if (!decision.rates.empty()) json.member("counts_as", decision.counts_as);
    json.member("policy_hash", host.engine.policy_hash()).end_object();
  }));
}

constexpr Method kMethods[] = {{.name = "policy.explain", .handle = explain, .params = kExplain}};

}  // namespace

std::span<const Method> policy_methods() { return kMethods; }

}  // namespace sallyport::handlers

#include "adapters/service.h"

#include "adapters/noop.h"
#include "platform/limits.h"

namespace sallyport::adapters {

using ipc::Call;
using ipc::Reply;
using platform::Operation;
using platform::Role;

Fire Service::serve(std::shared_ptr<ipc::Session> session) {
  machinery_.tell_warden = [weak = std::weak_ptr(session)](std::string_view method, const std::string& params) {
    if (const auto warden = weak.lock()) warden->send_event({}, method, params);
  };
  while (co_await session->receive()) {
    while (auto request = session->next_request()) answer(session, std::move(*request));
    session->end_turn();
  }
  session->close();
  machinery_.sessions.loop().stop();
}

Fire Service::answer(std::shared_ptr<ipc::Session> session, wire::Message&& request) {
  Call call(std::move(session), std::move(request));
  std::optional<Reply> reply;
  try {
    reply = co_await handle(call);
  } catch (const std::exception& error) {
    // What a library throws ends here, and never at the caller's.
    reply = Error::make(Code::internal_error, "the request could not be handled", error.what());
  }
  if (reply->error() && !reply->error()->detail.empty()) {
    machinery_.log.info("adapter call failed",
                        {{"method", call.message().method}, {"error", reply->error()->describe()}});
  }
  call.answer(std::move(*reply));
}

Task<Reply> Service::handle(Call& call) {
  const std::string_view method = call.message().method;
  if (method == "adapters.configure") return configure(call);
  if (method == "adapters.state") return report(call);
  const Operation* operation = platform::find_operation(method);
  if (operation == nullptr || !is_configured_) {
    return Task<Reply>::ready(Error::make(Code::method_not_found, "no such method"));
  }
  call.set_timeout(operation->timeout);
  return operate(*operation, call);
}

Task<Reply> Service::operate(const Operation& operation, Call& call) {
  Slot& slot = slots_[operation.role];
  ++slot.calls;
  if (!slot.active) {
    ++slot.failures;
    if (!config_.is_init_failure_an_error || slot.candidates.empty()) co_return answer_noop(call, slot.reason);
    co_return backend_down(slot.detail);
  }
  const std::shared_ptr<Adapter> adapter = slot.active;
  Reply reply = co_await adapter->handle(operation.method.substr(operation.method.find('.') + 1), call);
  if (reply.error()) ++slot.failures;
  co_return reply;
}

// ---- which adapter ----

Task<Reply> Service::configure(Call& call) {
  if (is_configured_) co_return Error::make(Code::conflict, "configured already");
  if (call.params().get("protocol").as_int() != platform::kProtocolVersion) {
    co_return Error::make(Code::conflict, "the warden is of another version");
  }
  CO_TRY(const platform::Node tree, platform::tree_from_json(call.params().get("config").to_json(), "config"));
  CO_TRY(config_, platform::parse_config(tree, "config"));
  machinery_.state_dir = call.params().get("state_dir").as_string().value_or("");
  machinery_.egress_hosts = call.params().get("egress_hosts").as_string().value_or("");
  is_configured_ = true;
  for (const Role role : platform::kRoles) {
    Slot& slot = slots_[role];
    const auto chosen = config_.adapters.find(role);
    slot.reason = "no adapter is configured for " + std::string(platform::to_string(role));
    if (chosen == config_.adapters.end()) continue;
    for (const std::string& name : chosen->second) {
      auto adapter = make_adapter(role, name, config_, machinery_);
      Candidate candidate{name, nullptr, Error::make(Code::internal_error, "")};
      if (adapter) {
        candidate.adapter = std::move(*adapter);
      } else {
        candidate.problem = adapter.error();
      }
      slot.candidates.push_back(std::move(candidate));
    }
    const bool is_there = co_await choose(role, slot);
    if (!is_there) choose_later(role);
  }
  co_return call.result([](wire::JsonWriter& json) { json.raw(R"({"configured":true})"); });
}

Task<bool> Service::choose(Role role, Slot& slot) {
  std::string problems;
  for (const Candidate& candidate : slot.candidates) {
    Status probed = candidate.problem;
    if (candidate.adapter) probed = co_await probe(*candidate.adapter, slot.latency_us);
    if (probed) {
      slot.active = candidate.adapter;
      slot.implementation = candidate.implementation;
      slot.reason.clear();
      slot.detail.clear();
      machinery_.log.info("adapter ready",
                          {{"role", platform::to_string(role)}, {"implementation", candidate.implementation}});
      co_return true;
    }
    problems += (problems.empty() ? "" : "; ") + candidate.implementation + ": " + probed.error().describe();
  }
  slot.reason = "no configured adapter for " + std::string(platform::to_string(role)) + " can be had now";
  if (slot.detail != problems) {
    slot.detail = problems;
    machinery_.log.warn(
        config_.is_init_failure_an_error ? "adapter failed" : "adapter replaced by one that does nothing",
        {{"role", platform::to_string(role)}, {"why", problems}});
  }
  co_return false;
}

Task<Status> Service::probe(Adapter& adapter, std::int64_t& latency_us) {
  const SteadyTime began = machinery_.clock.steady();
  Status status = co_await adapter.probe();
  latency_us =
      status ? std::chrono::duration_cast<std::chrono::microseconds>(machinery_.clock.steady() - began).count() : -1;
  co_return status;
}

// A backend that was down at the start is found without anybody's doing.
Fire Service::choose_later(Role role) {
  Slot& slot = slots_[role];
  slot.is_waiting = true;
  while (!slot.active) {
    co_await machinery_.sessions.loop().sleep(platform::kProbeAgain);
    co_await choose(role, slot);
  }
  slot.is_waiting = false;
}

// ---- what is said of them ----

Task<Reply> Service::report(Call& call) {
  if (call.params().get("probe").as_bool().value_or(false)) {
    for (auto& [role, slot] : slots_) {
      if (!slot.active) {
        if (slot.candidates.empty()) continue;
        co_await choose(role, slot);
        continue;
      }
      const std::shared_ptr<Adapter> adapter = slot.active;
      const Status probed = co_await probe(*adapter, slot.latency_us);
      slot.reason = probed ? "" : "the backend cannot be reached";
      slot.detail = probed ? "" : probed.error().describe();
    }
  }
  co_return call.result([&](wire::JsonWriter& json) {
    json.begin_object().key("adapters").begin_object();
    for (const auto& [role, slot] : slots_) {
      json.key(platform::to_string(role));
      describe(json, slot);
    }
    json.end_object().end_object();
  });
}

void Service::describe(wire::JsonWriter& json, const Slot& slot) const {
  const bool is_error = config_.is_init_failure_an_error && !slot.candidates.empty();
  const char* state = slot.active ? (slot.reason.empty() ? "ready" : "down") : is_error ? "failed" : "noop";
  json.begin_object().member("state", state);
  if (slot.active) json.member("implementation", slot.implementation);
  if (!slot.reason.empty()) json.member("reason", slot.reason);
  if (!slot.detail.empty()) json.member("detail", slot.detail);
  if (slot.latency_us >= 0) json.member("latency_us", slot.latency_us);
  json.member("calls", slot.calls).member("failures", slot.failures);
  if (slot.active) slot.active->describe(json);
  json.end_object();
}

}  // namespace sallyport::adapters

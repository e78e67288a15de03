#include "adapters/service.h"

#include "adapters/noop.h"
#include "platform/limits.h"

namespace sallyport::adapters {

using ipc::Call;
using ipc::Reply;
using platform::Operation;
using platform::Role;

namespace {

// How long one that is asked whether it is there may take to say so, its connection and credential included; less than
// the first call of a cache waits.
constexpr Millis kPatience{3'000};
constexpr Millis kThirdPartyPatience{10'000};

}  // namespace

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
  Call call(session, std::move(request));
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
  if (method == "adapters.ping") return Task<Reply>::ready(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
  if (method == "adapters.state") return report(call);
  if (method == "adapters.stored") return count(call);
  if (method == "adapters.forget") return forget(call);
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
  // What a write came to is counted, whoever still waits for it.
  if (operation.spends == platform::Spends::storage_bytes) call.answer_for_itself();
  if (!slot.active && !slot.is_decided) co_await wait_for_choice(slot, operation.timeout, &call);
  if (call.is_given_up()) co_return nothing_stored(call.why_given_up());
  if (!slot.active) {
    ++slot.failures;
    if (!config_.is_init_failure_an_error || slot.candidates.empty()) co_return answer_noop(call, slot.reason);
    co_return backend_down(slot.detail);
  }
  const std::shared_ptr<Adapter> adapter = slot.active;
  std::unique_ptr<Turns::Turn> turn;
  if (adapter->takes_turns()) {
    turn = co_await slot.turns.take(call, std::string(call.params().get("$tenant").as_string().value_or("")));
    if (!turn) co_return nothing_stored(call.why_given_up());
  }
  Reply reply = co_await adapter->handle(operation.method.substr(operation.method.find('.') + 1), call);
  if (reply.error()) ++slot.failures;
  if (slot.active == adapter) note(operation.role, slot, reply.error() ? Status(*reply.error()) : ok());
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
  }
  // Nobody waits for it: a backend that does not answer holds its own role only.
  for (const Role role : platform::kRoles) decide(role);
  co_return call.result([](wire::JsonWriter& json) { json.raw(R"({"configured":true})"); });
}

Fire Service::decide(Role role) {
  Slot& slot = slots_[role];
  slot.is_decided = slot.candidates.empty();
  while (!slot.active && !slot.candidates.empty()) {
    const bool is_there = co_await choose(role, slot);
    // A backend that was down at the start is found without anybody's doing.
    if (!is_there) co_await machinery_.sessions.loop().sleep(platform::kProbeAgain);
  }
}

Task<bool> Service::choose(Role role, Slot& slot) {
  if (slot.is_choosing) co_return co_await wait_for_choice(slot, kThirdPartyPatience);
  slot.is_choosing = true;
  std::string problems;
  for (const Candidate& candidate : slot.candidates) {
    Status probed = candidate.problem;
    if (candidate.adapter) probed = co_await probe(candidate, slot.latency_us);
    if (probed) {
      slot.active = candidate.adapter;
      slot.implementation = candidate.implementation;
      slot.passed_over = problems;
      slot.reason.clear();
      slot.detail.clear();
      break;
    }
    problems += (problems.empty() ? "" : "; ") + candidate.implementation + ": " + probed.error().describe();
  }
  const std::string_view name = platform::to_string(role);
  if (slot.active && problems.empty()) {
    machinery_.log.info("adapter ready", {{"role", name}, {"implementation", slot.implementation}});
  } else if (slot.active) {
    machinery_.log.warn("adapter ready, in place of another that cannot be had",
                        {{"role", name}, {"implementation", slot.implementation}, {"why", problems}});
  } else {
    slot.reason = "no configured adapter for " + std::string(name) + " can be had now";
    if (std::exchange(slot.detail, problems) != problems) {
      machinery_.log.warn(
          config_.is_init_failure_an_error ? "adapter failed" : "adapter replaced by one that does nothing",
          {{"role", name}, {"why", problems}});
    }
  }
  slot.is_choosing = false;
  slot.is_decided = true;
  for (const auto& waiter : std::exchange(slot.waiting, {})) waiter->resolve(true);
  co_return slot.active != nullptr;
}

// Until the choice under way is made, the time is over or the call is given up. True if there is one then.
Task<bool> Service::wait_for_choice(Slot& slot, Millis patience, Call* call) {
  const auto over = std::make_shared<ipc::OneShot<bool>>();
  slot.waiting.push_back(over);
  if (call != nullptr) call->on_cancel([over] { over->resolve(false); });
  ipc::Loop& loop = machinery_.sessions.loop();
  const auto timer = patience.count() > 0 ? loop.after(patience, [over] { over->resolve(false); }) : 0;
  co_await *over;
  if (timer != 0) loop.cancel(timer);
  if (call != nullptr) call->on_cancel(nullptr);
  co_return slot.active != nullptr;
}

namespace {

Fire ask_adapter(std::shared_ptr<Adapter> adapter, std::shared_ptr<ipc::OneShot<Status>> answered) {
  Status status = co_await adapter->probe();
  answered->resolve(std::move(status));
}

}  // namespace

Task<Status> Service::probe(const Candidate& candidate, std::int64_t& latency_us) {
  const SteadyTime began = machinery_.clock.steady();
  const auto answered = std::make_shared<ipc::OneShot<Status>>();
  ask_adapter(candidate.adapter, answered);
  ipc::Loop& loop = machinery_.sessions.loop();
  // A program of others has to be started first.
  const bool is_started = config_.third_party.contains(candidate.implementation);
  const auto timer = loop.after(is_started ? kThirdPartyPatience : kPatience,
                                [answered] { answered->resolve(backend_down("it did not answer in time")); });
  Status status = co_await *answered;
  loop.cancel(timer);
  latency_us =
      status ? std::chrono::duration_cast<std::chrono::microseconds>(machinery_.clock.steady() - began).count() : -1;
  co_return status;
}

// ---- the one in use ----

Task<bool> Service::check(Role role, Slot& slot) {
  const Candidate candidate{slot.implementation, slot.active, {}};
  const Status probed = co_await probe(candidate, slot.latency_us);
  note(role, slot, probed ? ok() : Status(backend_down(probed.error().describe())));
  co_return slot.reason.empty();
}

// Only UNAVAILABLE says that it is not there, and only success that it is.
void Service::note(Role role, Slot& slot, const Status& seen) {
  if (seen) {
    slot.reason.clear();
    slot.detail.clear();
  } else if (seen.error().code == Code::unavailable) {
    slot.reason = "the backend cannot be reached";
    slot.detail = seen.error().describe();
    if (!slot.is_recovering) recover(role);
  }
}

// What is said of a backend that was down is true again without anybody's call.
Fire Service::recover(Role role) {
  Slot& slot = slots_[role];
  slot.is_recovering = true;
  while (!slot.reason.empty()) {
    co_await machinery_.sessions.loop().sleep(platform::kProbeAgain);
    if (!slot.reason.empty()) co_await check(role, slot);
  }
  slot.is_recovering = false;
}

// ---- what is said of them ----

Task<bool> Service::ask_all() {
  const auto all = std::make_shared<ipc::OneShot<bool>>();
  const auto left = std::make_shared<std::size_t>(1);
  const auto done = [all, left] {
    if (--*left == 0) all->resolve(true);
  };
  for (const auto& [role, slot] : slots_) {
    if (slot.candidates.empty()) continue;
    ++*left;
    ask_one(role, done);
  }
  done();
  co_return co_await *all;
}

Fire Service::ask_one(Role role, std::function<void()> done) {
  Slot& slot = slots_[role];
  if (slot.active) {
    co_await check(role, slot);
  } else {
    co_await choose(role, slot);
  }
  done();
}

Task<Reply> Service::report(Call& call) {
  if (call.params().get("probe").as_bool().value_or(false)) co_await ask_all();
  const SteadyTime until = machinery_.clock.steady() + kPatience;
  for (auto& [role, slot] : slots_) {
    const auto left = std::chrono::duration_cast<Millis>(until - machinery_.clock.steady());
    if (!slot.is_decided && left.count() > 0) co_await wait_for_choice(slot, left, &call);
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

Task<Result<std::shared_ptr<Adapter>>> Service::keeper(Role role, Call& call) {
  Slot& slot = slots_[role];
  if (slot.candidates.empty()) co_return std::shared_ptr<Adapter>();
  if (!slot.active && !slot.is_decided) co_await wait_for_choice(slot, kThirdPartyPatience, &call);
  if (!slot.active) co_return backend_down(slot.detail);
  co_return slot.active;
}

// What the adapters in use keep of a tenant. One that cannot tell makes the sum none.
Task<Reply> Service::count(Call& call) {
  const std::string tenant(call.params().get("$tenant").as_string().value_or(""));
  std::int64_t sum = 0;
  for (const Role role : {Role::storage, Role::vector}) {
    CO_TRY(const std::shared_ptr<Adapter> adapter, co_await keeper(role, call));
    if (!adapter) continue;
    CO_TRY(const std::int64_t bytes, co_await adapter->stored_bytes(tenant));
    sum += bytes;
  }
  co_return call.result([&](wire::JsonWriter& json) { json.begin_object().member("stored_bytes", sum).end_object(); });
}

Task<Reply> Service::forget(Call& call) {
  const std::string tenant(call.params().get("$tenant").as_string().value_or(""));
  for (const Role role : {Role::storage, Role::cache, Role::vector}) {
    CO_TRY(const std::shared_ptr<Adapter> adapter, co_await keeper(role, call));
    if (!adapter) continue;
    CO_TRY(co_await adapter->forget(tenant));
  }
  co_return call.result([](wire::JsonWriter& json) { json.raw("{}"); });
}

void Service::describe(wire::JsonWriter& json, const Slot& slot) const {
  const bool is_error = config_.is_init_failure_an_error && !slot.candidates.empty();
  const char* state = slot.active        ? (slot.reason.empty() ? "ready" : "down")
                      : !slot.is_decided ? "starting"
                      : is_error         ? "failed"
                                         : "noop";
  json.begin_object().member("state", state);
  if (slot.active) json.member("implementation", slot.implementation);
  if (!slot.is_decided) {
    json.member("reason", "it was not heard of yet");
  } else if (!slot.reason.empty()) {
    json.member("reason", slot.reason);
  }
  if (!slot.detail.empty()) json.member("detail", slot.detail);
  if (!slot.passed_over.empty()) json.member("passed_over", slot.passed_over);
  if (slot.latency_us >= 0) json.member("latency_us", slot.latency_us);
  json.member("calls", slot.calls).member("failures", slot.failures);
  if (slot.active) slot.active->describe(json);
  json.end_object();
}

}  // namespace sallyport::adapters

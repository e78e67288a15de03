#include "warden/pipeline.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>

namespace sallyport::warden {

using handlers::Audit;
using handlers::Method;
using handlers::RequestContext;
using ipc::Call;
using ipc::Reply;
using ipc::Session;

namespace {

// Descriptors that a container's connections may not use up: the host's own door must go on opening.
constexpr rlim_t kReservedDescriptors = 128;

bool is_short_of_descriptors(int fd) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && static_cast<rlim_t>(fd) + kReservedDescriptors > limit.rlim_cur;
}

// Counts a request as long as it lives.
class InFlight {
 public:
  InFlight(Door& door, const Call& call) : door_(door), bytes_(call.message().bytes) {
    ++door_.in_flight;
    door_.has_asked = true;
    door_.in_flight_bytes += bytes_;
  }
  ~InFlight() {
    --door_.in_flight;
    door_.in_flight_bytes -= bytes_;
  }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  Door& door_;
  std::size_t bytes_;
};

// Whatever a library throws ends here.
Error barrier(const std::exception& error) {
  return Error::make(Code::internal_error, "the request could not be handled", error.what());
}

policy::Question question_of(const Method* method, const RequestContext& context, const Call& call) {
  return {context.principal, context.process, method != nullptr ? method->name : call.message().method,
          call.message().token, call.params()};
}

// What a reviewer's verdict means for the caller; ok if it approved.
Status refusal(const approval::Verdict& verdict) {
  switch (verdict.kind) {
    case approval::Verdict::Kind::approved:
      return ok();
    case approval::Verdict::Kind::expired:
      return Error::make(Code::approval_expired, "nobody answered in time", "by " + verdict.by);
    case approval::Verdict::Kind::modified:
    case approval::Verdict::Kind::rejected:
      break;
  }
  Error error = Error::make(Code::approval_denied, verdict.why.empty() ? "a reviewer rejected it" : verdict.why,
                            "by " + verdict.by);
  error.details_json = verdict.details_json;
  return error;
}

}  // namespace

namespace {

std::vector<const Method*> all_methods() {
  std::vector<const Method*> all;
  for (const auto group : {handlers::warden_methods(), handlers::container_methods(), handlers::group_methods(),
                           handlers::fs_methods(), handlers::schedule_methods(), handlers::audit_methods(),
                           handlers::mailbox_methods(), handlers::policy_methods(), handlers::approval_methods(),
                           handlers::pod_methods(), handlers::platform_methods()}) {
    for (const Method& method : group) all.push_back(&method);
  }
  return all;
}

}  // namespace

bool has_method(std::string_view pattern) {
  const auto all = all_methods();
  return std::any_of(all.begin(), all.end(),
                     [pattern](const Method* method) { return policy::matches(pattern, method->name); });
}

std::size_t MethodTable::place_of(std::string_view name) {
  const auto at = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(name[i])}; };
  return (name.size() + at(0) * 3 + at(name.size() / 2) * 31 + at(name.size() - 1) * 127) % kPlaces;
}

MethodTable::MethodTable() {
  const auto all = all_methods();
  for (const Method* method : all) {
    std::size_t place = place_of(method->name);
    while (places_.at(place) != nullptr) place = (place + 1) % kPlaces;
    places_.at(place) = method;
  }
}

const Method* MethodTable::find(std::string_view name) const {
  // Every name of a request has a letter.
  for (std::size_t place = place_of(name); places_.at(place) != nullptr; place = (place + 1) % kPlaces) {
    if (places_.at(place)->name == name) return places_.at(place);
  }
  return nullptr;
}

Pipeline::Pipeline(handlers::Host& host) : host_(host), auditor_(host.ledger, host.sessions.log(), host.clock) {}

// ---- UniqueFd -> Peer ----

void Pipeline::accept(UniqueFd connection, Door& door, const ipc::PeerVerifier& verify) {
  const auto peer = verify(connection.get());
  if (!peer) return refuse(std::move(connection), door, peer.error());
  RequestContext context;
  context.peer = peer->identity;
  context.process = peer->process;
  context.identity = os::to_string(peer->proof);
  context.is_place_known = peer->is_place_known;
  open(std::move(connection), UniqueFd(), door, std::move(context));
}

void Pipeline::accept_proven(UniqueFd in, UniqueFd out, Door& door, std::string identity) {
  RequestContext context;
  context.identity = std::move(identity);
  open(std::move(in), std::move(out), door, std::move(context));
}

void Pipeline::refuse(UniqueFd connection, const Door& door, const Error& error) {
  ++host_.sessions.counters().refused;
  // Whoever floods a door does not bury what else subscribers are told.
  if (host_.sessions.log_about(door.name, LogLevel::warn, "connection refused",
                               {{"door", door.name}, {"error", error.describe()}})) {
    host_.events.publish("session.refused", wire::to_json([&](wire::JsonWriter& json) {
                           json.begin_object().member("door", door.name).member("why", error.message).end_object();
                         }));
  }
  // A courtesy: it may well not be read.
  Bytes frame;
  wire::append_error(frame, {}, error);
  ::send(connection.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// ---- Peer -> Session ----

void Pipeline::open(UniqueFd in, UniqueFd out, Door& door, RequestContext context) {
  if (door.connections >= door.max_connections) {
    return refuse(std::move(in), door, Error::make(Code::rate_limited, "too many connections on this door"));
  }
  if (!door.principal.is_host() && is_short_of_descriptors(in.get())) {
    return refuse(std::move(in), door, Error::make(Code::rate_limited, "too many connections on all doors"));
  }
  context.principal = door.principal;
  context.container_id = door.principal.container_id();
  context.plugin_name = door.plugin_name;
  context.capability_tags = door.capability_tags;
  const std::string name = door.name + "/" + std::to_string(host_.sessions.counters().accepted);
  auto session = Session::open(host_.sessions, std::move(in), std::move(out), wire::Side::accepting, name);
  if (!session) {
    host_.sessions.log_about(door.name, LogLevel::error, "cannot open a session",
                             {{"door", door.name}, {"error", session.error().describe()}});
    return;
  }
  (*session)->charge_to(door.account);
  ++door.connections;
  (*session)->on_close([&door] { --door.connections; });
  serve(std::move(*session), door, std::move(context));
}

// ---- Session -> Frame -> Request ----

Fire Pipeline::serve(std::shared_ptr<Session> session, Door& door, RequestContext context) {
  // Requests may still be answered when the last one has come, or when who asks next may do less.
  const auto first = std::make_shared<RequestContext>(std::move(context));
  session->keep(first);
  RequestContext* asking = first.get();
  while (co_await session->receive()) {
    while (auto request = session->next_request()) {
      if (asking->narrowed_to) asking = asking->narrowed_to.get();
      answer(session, door, *asking, std::move(*request));
    }
    session->end_turn();
  }
  session->finish();
}

// ---- Request -> Permit -> Reply -> sent ----

Fire Pipeline::answer(const std::shared_ptr<Session>& session, Door& door, RequestContext& context,
                      wire::Message&& request) {
  // Before the first suspension, after which the caller's `session` and `request` are gone. The call holds the session,
  // and that the context.
  Call call(session, std::move(request));
  const Method* method = methods_.find(call.message().method);
  // Policy first: whoever may call nothing learns nothing about which methods there are.
  std::optional<Permit> permit = host_.engine.permit_at_once(question_of(method, context, call));
  Status allowed = permit ? check(method, door, context, call.message()) : ok();
  std::string agreed_under;
  if (!permit) {
    try {
      auto granted = co_await grant(method, door, context, call, agreed_under);
      if (granted) {
        permit.emplace(std::move(*granted));
      } else {
        allowed = std::move(granted).error();
      }
    } catch (const std::exception& error) {
      allowed = barrier(error);
    }
  }
  if (!allowed) {
    auditor_.refused(context, call, allowed.error());
    call.answer(allowed.error());
    co_return;
  }
  const InFlight counted(door, call);
  call.set_timeout(method->timeout);
  std::optional<Reply> reply;
  try {
    auto work = method->audit == Audit::none ? method->handle(*permit, call, context, host_)
                                             : handle_audited(*method, *permit, call, context, agreed_under);
    reply = co_await work;
  } catch (const std::exception& error) {
    reply = barrier(error);
  }
  call.answer(std::move(*reply));
}

// Nothing happens that is not recorded first, and nobody is told of it before what came of it is recorded.
Task<Reply> Pipeline::handle_audited(const Method& method, const Permit& permit, Call& call, RequestContext& context,
                                     const std::string& agreed_under) {
  CO_TRY(co_await auditor_.decision(method, context, call));
  std::optional<Reply> reply;
  if (call.is_answered()) {
    reply = Error::make(Code::cancelled, "the request ended before it began");
  } else if (const Status agreed = check_agreed(agreed_under); !agreed) {
    reply = agreed.error();
  } else {
    try {
      reply = co_await method.handle(permit, call, context, host_);
    } catch (const std::exception& error) {
      reply = barrier(error);
    }
  }
  const Status recorded = co_await auditor_.outcome(method, context, call, *reply);
  if (recorded) co_return std::move(*reply);
  // Not retryable: it has happened.
  co_return Error::make(Code::unavailable,
                        reply->error() ? "it failed (" + reply->error()->message + "), which could not be recorded"
                                       : "it was done, but that could not be recorded",
                        recorded.error().detail);
}

// What reviewers said under another policy counts as if the question had been void.
Status Pipeline::check_agreed(const std::string& policy) const {
  if (policy.empty() || policy == host_.engine.policy_hash()) return ok();
  return Error::make(Code::approval_denied, "the policy changed before it was done");
}

Status Pipeline::check(const Method* method, const Door& door, const RequestContext& context,
                       const wire::Message& request) {
  if (method == nullptr) return Error::make(Code::method_not_found, "no such method");
  if (method->audit == Audit::durable && !context.is_place_known) {
    return Error::make(Code::policy_denied, "policy does not allow this method", "the peer's namespace is unknown");
  }
  if (!method->are_params_checked_by_handler) TRY(wire::check_params(method->params, request.params));
  if (door.in_flight >= door.max_in_flight || door.in_flight_bytes > door.max_in_flight_bytes) {
    return Error::make(Code::rate_limited, "too many requests in flight");
  }
  return ok();
}

// ---- Request -> reviewed -> Permit ----

Task<Result<Permit>> Pipeline::grant(const Method* method, Door& door, const RequestContext& context, Call& call,
                                     std::string& agreed_under) {
  policy::Decision decision = host_.engine.consider(question_of(method, context, call));
  policy::Granted granted;
  if (!decision.is_denied) {
    CO_TRY(host_.engine.check_token(question_of(method, context, call)));
    CO_TRY(check(method, door, context, call.message()));
    std::vector<ledger::Limit> limits;
    for (const policy::RateLimit& rate : decision.rates) limits.push_back({rate.rule, {rate.count, rate.period}});
    CO_TRY(host_.ledger.rates().take(decision.counts_as, limits));
    if (decision.needs_deputy || decision.needs_human) {
      // Nobody can review what comes after the review.
      if (!call.message().streams.empty()) {
        Error refused = Error::make(Code::policy_denied,
                                    "what must be reviewed cannot come as a stream; send it in the request itself");
        refused.details_json = R"({"reason":"reviewed_stream"})";
        co_return refused;
      }
      const InFlight counted(door, call);
      CO_TRY(granted, co_await review(*method, decision, context, call, agreed_under));
    }
  }
  co_return host_.engine.permit(question_of(method, context, call), decision, granted);
}

// Waits for the deputy and the human, as the decision demands. A deputy may change the parameters, once: then
// schema and policy are asked again, and so is the deputy.
Task<Result<policy::Granted>> Pipeline::review(const Method& method, policy::Decision& decision,
                                               const RequestContext& context, Call& call, std::string& agreed_under) {
  policy::Granted granted;
  approval::Matter matter{.container = context.container_id,
                          .request_id = host_.gate.make_call_id(),
                          .subject = std::string(method.name),
                          .payload = call.params() ? call.params().to_json() : "{}",
                          .rule = decision.rule,
                          .policy_hash = host_.engine.policy_hash(),
                          .original = std::nullopt};
  call.on_cancel([this, container = matter.container, id = matter.request_id] { host_.gate.withdraw(container, id); });
  while (decision.needs_deputy && !granted.deputy) {
    approval::Verdict verdict = co_await host_.deputy.review(matter);
    if (verdict.kind == approval::Verdict::Kind::modified && matter.original) {
      verdict = {.kind = approval::Verdict::Kind::rejected,
                 .payload = {},
                 .why = "the deputy changes it again and again",
                 .by = verdict.by};
    }
    CO_TRY(auditor_.reviewed(context, call, matter, verdict));
    if (verdict.kind == approval::Verdict::Kind::modified) {
      CO_TRY(wire::Document changed, host_.sessions.decoder().parse(verdict.payload));
      if (!method.are_params_checked_by_handler) CO_TRY(wire::check_params(method.params, changed.root()));
      call.replace_params(std::move(changed));
      matter.original = std::exchange(matter.payload, call.params().to_json());
    } else {
      CO_TRY(refusal(verdict));
      // Under another policy it says nothing: it is asked again.
      granted.deputy = matter.policy_hash == host_.engine.policy_hash();
    }
    // Anew: the parameters may be others now, and so may the policy.
    decision = host_.engine.consider(question_of(&method, context, call));
    matter.rule = decision.rule;
    matter.policy_hash = host_.engine.policy_hash();
    if (decision.is_denied) co_return granted;  // which the engine turns into an error
  }
  if (decision.needs_human && !call.is_answered()) {
    // The caller learns what it waits for; answering is for sessions that were not narrowed.
    matter.on_asked = [weak = std::weak_ptr(call.share_session()),
                       id = std::string(call.message().id)](const std::string& asked) {
      const auto session = weak.lock();
      if (!session) return;
      session->send_event(id, "approval.asked", wire::to_json([&](wire::JsonWriter& json) {
                            json.begin_object().member("id", asked).end_object();
                          }));
    };
    const approval::Verdict verdict = co_await host_.gate.review(matter);
    CO_TRY(refusal(verdict));
    CO_TRY(check_agreed(matter.policy_hash));
    granted.human = true;
  }
  agreed_under = matter.policy_hash;
  call.on_cancel(nullptr);
  if (call.is_answered()) co_return Error::make(Code::cancelled, "the request ended before it was reviewed");
  co_return granted;
}

}  // namespace sallyport::warden

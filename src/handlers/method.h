// A method is a row of a table: its name, what it takes, how long it may last, how it is recorded, and
// the function that does it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "approval/gate.h"
#include "approval/review.h"
#include "base/base.h"
#include "containers/groups.h"
#include "containers/registry.h"
#include "containers/workers.h"
#include "egress/link.h"
#include "handlers/events.h"
#include "ipc/ipc.h"
#include "ledger/ledger.h"
#include "mailbox/mailbox.h"
#include "os/peer.h"
#include "permit/permit.h"
#include "platform/adapters_link.h"
#include "pod/roster.h"
#include "policy/policy.h"
#include "scheduler/scheduler.h"
#include "wire/wire.h"

namespace sallyport::handlers {

// Who asks. Filled from the door and the kernel when the session opens, never from a message.
struct RequestContext {
  Principal principal = Principal::host();
  std::string container_id;  // empty for the host
  std::string plugin_name;
  std::vector<std::string> capability_tags;
  os::PeerIdentity peer;
  std::uint64_t process = 0;
  std::string identity;  // how it is known: "pidfd", "pid-checked", "proof", "inherited"
  bool is_narrowed = false;
  std::shared_ptr<RequestContext> narrowed_to;  // set by session.narrow: who asks from the next request on
  bool is_place_known = true;                   // see os::Peer; without it nothing of audit class durable
};

// What handlers may use of the warden. The warden outlives every handler.
struct Host {
  ipc::Sessions& sessions;
  policy::Engine& engine;
  const policy::Tokens& tokens;
  EventHub& events;
  containers::Registry& containers;
  containers::Workers& workers;
  pod::Roster& pods;
  containers::Groups& groups;
  scheduler::Scheduler& scheduler;
  egress::Link& egress;
  platform::AdaptersLink& adapters;
  policy::Profiles& profiles;
  ledger::Ledger& ledger;
  mailbox::Mailbox& mailbox;
  approval::Reviewer& deputy;
  approval::Gate& gate;
  const Clock& clock;
  std::string version;
  SteadyTime started = {};
  std::string config_error;                       // of the last reload; empty when all is well
  bool is_net_faulty = false;                     // the profiles have a fault: nobody may reach anything
  std::function<bool(std::string_view)> is_name;  // of a method or signal
  std::function<Status()> reload;
  std::function<void()> shut_down;
};

// How a request that was allowed is recorded: not at all; in order, but a crash may cost the last 50 ms; or on
// the disk before the handler runs and, with its outcome, before the reply is sent.
enum class Audit : std::uint8_t { none, buffered, durable };

// For handlers: an answer that is there at once, and what their parameters hold.
inline Task<ipc::Reply> now(ipc::Reply reply) { return Task<ipc::Reply>::ready(std::move(reply)); }
inline std::string text(wire::Value value) { return std::string(value.as_string().value_or("")); }
inline std::vector<std::string> strings(wire::Value array) {
  std::vector<std::string> all;
  for (const wire::Value item : array.items()) all.push_back(text(item));
  return all;
}

// Of methods that are for the control door only, whatever a profile allows.
inline Status require_host(const RequestContext& context) {
  if (context.principal.is_host() && !context.is_narrowed) return ok();
  return Error::make(Code::policy_denied, "policy does not allow this method", "not the control door");
}

using Handler = Task<ipc::Reply> (*)(const Permit&, ipc::Call&, RequestContext&, Host&);

struct Method {
  std::string_view name;
  Handler handle = nullptr;
  wire::Schema params = {};
  bool are_params_checked_by_handler = false;  // where a worker knows what they mean
  Millis timeout{30'000};                      // 0: as long as it takes
  Audit audit = Audit::none;
  // It stops something. The host may always do that: where the ledger cannot be written it is done all the same, and
  // recorded as soon as it can be.
  bool is_brake = false;
};

// Makes a container as container.create does; also for those that a restarted warden finds lost, and for
// scheduled runs.
Task<Result<std::shared_ptr<containers::Container>>> start_container(Host& host, containers::Config config);
// Forgets one that is over as soon as nothing that it dropped before waits to be answered.
void remove_when_idle(Host& host, const std::string& id);
Status narrow_profile(policy::Profile& profile, wire::Value overrides);
// What container.create and pod.create take as `profile`.
inline constexpr wire::Field kNetOverrides[] = {{.name = "allow", .type = wire::Type::string_array},
                                                {.name = "deny", .type = wire::Type::string_array}};
inline constexpr wire::Field kProfileOverrides[] = {
    {.name = "limits", .type = wire::Type::object},
    {.name = "methods", .type = wire::Type::string_array},
    {.name = "signals", .type = wire::Type::string_array},
    {.name = "deny", .type = wire::Type::string_array},
    {.name = "read_only", .type = wire::Type::boolean},
    {.name = "net", .type = wire::Type::object, .fields = kNetOverrides}};
// Its profile as it is now, narrowed as it was for this container. NOT_FOUND if there is none of its name.
Result<policy::Profile> profile_of(const policy::Profiles& profiles, const containers::Config& config);
// Tells the engine what a container may ask for. One that is over may call nothing, but what it asked for
// before is still decided; one whose profile is gone or does not fit any more may do nothing at all.
void set_policy(Host& host, const containers::Container& container);

// One function per method group.
std::span<const Method> warden_methods();
std::span<const Method> container_methods();
std::span<const Method> group_methods();
std::span<const Method> schedule_methods();
std::span<const Method> audit_methods();
std::span<const Method> fs_methods();
std::span<const Method> pod_methods();
std::span<const Method> mailbox_methods();
std::span<const Method> platform_methods();
std::span<const Method> policy_methods();
std::span<const Method> approval_methods();

}  // namespace sallyport::handlers

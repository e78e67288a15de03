// The host side of the signals: what is done about each, after policy, review and journal have spoken.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/base.h"
#include "containers/groups.h"
#include "containers/registry.h"
#include "ipc/loop.h"
#include "mailbox/signal.h"
#include "policy/engine.h"
#include "policy/profile.h"
#include "scheduler/declared.h"
#include "scheduler/output_router.h"
#include "scheduler/scheduler.h"

namespace sallyport::scheduler {

// What the actions use. Outlives them.
struct SignalHost {
  ipc::Loop& loop;
  containers::Registry& registry;
  containers::Groups& groups;
  const policy::Profiles& profiles;
  const policy::Engine& engine;
  Scheduler& scheduler;
  OutputRouter& output;
  const Deployments& deployments;
  const Clock& clock;
  const Log& log;
  Publish publish;
  // A container's profile as it was narrowed for it.
  std::function<Result<policy::Profile>(const containers::Config&)> profile_of;
  std::string programs_dir = {};  // where it is noted which programs run; see program.h
};

// message_ready progress_ready context_reset refresh_groups; schedule_task deploy register_group
// create_periodic_agent. All but deploy may be done again under the same key.
std::vector<mailbox::Signal> builtin_signals(SignalHost& host);
// Those of the configuration. Each signal keeps alive what it was declared with.
std::vector<mailbox::Signal> declared_signals(SignalHost& host, const std::vector<DeclaredSignal>& declared);

// The deploy signal's own file: the action, whether it could be done, and what it would run.
Task<Result<std::string>> deploy(SignalHost& host, mailbox::Raised raised);
Status check_deploy(SignalHost& host, const mailbox::Raised& raised);
std::vector<std::string> deploy_command(SignalHost& host, const mailbox::Raised& raised);

// Of actions: who raised it, and its payload. NOT_FOUND once the container was removed.
Result<std::shared_ptr<containers::Container>> sender_of(SignalHost& host, const mailbox::Raised& raised);
Result<wire::Document> payload_of(const mailbox::Raised& raised);

}  // namespace sallyport::scheduler

// The warden's configuration file, sallyport.toml.
//
//   [warden]
//   idle_timeout_ms = 600000     # a connection with nothing in flight is closed after this
//   frame_timeout_ms = 30000     # a frame once begun must be complete by then
//   drain_timeout_ms = 10000     # how long a shutdown waits for requests and streams in flight
//   max_connections = 16384      # per door
//   max_in_flight = 4096         # requests per principal, over all its connections
//   require_pidfd = false        # refuse kernels that cannot prove who a peer is
//   [host]
//   methods = ["*"]              # what the host itself may call
//   token_methods = []           # of these, what also needs a capability token
//   [schedule]
//   zone = "UTC"                 # whose clock cron expressions mean: Europe/Berlin
//   max_tasks = 256              # waiting or running
//   max_tasks_per_owner = 32     # of these, of one group or container
//   max_running = 4              # runs at once
//   max_run_ms = 3600000         # a run that lasts longer is stopped
//   [signal.NAME], [deploy.NAME] # see warden/signal_config.h
//   [platform]                   # adapters for workers: see platform/config.h. Or platform.json beside this file
//   [approvals]
//   expiry = "24h"               # how long a human has to answer; after that it is a no
//   [[rule]]                     # see docs/policy.md
#pragma once

#include <string>

#include "base/base.h"
#include "ipc/sessions.h"
#include "platform/config.h"
#include "policy/engine.h"
#include "scheduler/declared.h"
#include "scheduler/scheduler.h"

namespace sallyport::warden {

struct Config {
  ipc::SessionLimits session;
  Millis drain_timeout{10'000};
  std::size_t max_connections = 16'384;
  std::size_t max_in_flight = 4'096;
  bool require_pidfd = false;
  policy::HostPolicy host;
  scheduler::Limits schedule;
  std::vector<scheduler::DeclaredSignal> signals;
  scheduler::Deployments deployments;
  platform::Config platform;
  Millis approval_expiry{24 * 60 * 60 * 1000};
  std::vector<policy::Rule> rules;
};

// An absent file is the default configuration. A fault is INVALID_PARAMS naming file, line, column and
// the word that is wrong: unknown keys and wrong types are faults too.
Result<Config> load_config(const std::string& path);
Result<Config> parse_config(std::string_view text, const std::string& path);

}  // namespace sallyport::warden

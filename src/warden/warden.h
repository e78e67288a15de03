// The warden: doors, pipeline, configuration and life cycle, wired together.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "approval/deputy.h"
#include "approval/gate.h"
#include "base/base.h"
#include "containers/cells.h"
#include "containers/groups.h"
#include "containers/registry.h"
#include "containers/workers.h"
#include "egress/link.h"
#include "handlers/method.h"
#include "ipc/ipc.h"
#include "ledger/ledger.h"
#include "mailbox/mailbox.h"
#include "os/paths.h"
#include "platform/adapters_link.h"
#include "scheduler/output_router.h"
#include "scheduler/scheduler.h"
#include "scheduler/signals.h"
#include "warden/config.h"
#include "warden/pipeline.h"
#include "warden/signals.h"

namespace sallyport::warden {

struct Options {
  os::Paths paths;
  std::string version;
  bool with_loopback = false;  // also a TCP door, published in paths.loopback_file()
  bool with_stdio = false;     // also serve the parent process on stdin and stdout; ends with them
  Spinner::Mode spin = Spinner::Mode::adaptive;
  // For tests: signals beside the built-in ones, and other reviewers.
  std::vector<mailbox::Signal> more_signals = {};
  std::shared_ptr<approval::Reviewer> deputy = {}, human = {};
};

// The detail of the error when another warden of this user is alive.
inline constexpr std::string_view kPlaceTaken = "the lock is held";

class Warden {
 public:
  // Takes the lock, opens the doors. CONFLICT if another warden of this user is alive. `verifier` is
  // replaced only by tests.
  static Result<std::unique_ptr<Warden>> start(Options options, const Log& log, const Clock& clock,
                                               std::optional<ipc::PeerVerifier> verifier = {});
  ~Warden();
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  // Serves until shutdown, by signal (SIGTERM, SIGINT) or request. SIGHUP reloads the configuration.
  void run();

  ipc::Sessions& sessions() { return sessions_; }

 private:
  struct Claim {
    UniqueFd directory, lock;
  };
  static Result<Claim> claim(const os::Paths& paths);
  Warden(Options options, Config config, Claim claim, std::unique_ptr<ledger::Ledger> ledger, const Log& log,
         const Clock& clock);
  Status open_doors(std::optional<ipc::PeerVerifier> verifier);
  Status open_control_door(std::optional<ipc::PeerVerifier> verifier);
  Status open_loopback_door();
  Status open_stdio_door();
  void watch_for_signals();
  Fire watch_place();
  bool holds_place() const;  // whether its lock still keeps others out
  void leave_place();
  Status open_containers();
  void open_container_connection(UniqueFd connection, const std::shared_ptr<containers::Container>& container);
  void take_up_mailbox(const containers::Container& container);
  Fire stop_overloaded(std::shared_ptr<containers::Container> container, std::string why);
  void record(const containers::Incident& incident);
  Fire restart(std::shared_ptr<containers::Container> lost);
  Fire open_scheduler();
  scheduler::Publish publisher();
  std::vector<mailbox::Signal> all_signals(const Config& config);
  Status read_groups();
  Status reload();
  void record_policy(const Status& loaded);
  Fire check_ledger();
  void apply(const Config& config);
  static void limit(Door& door, const Config& config);
  void apply_net_policies();
  std::optional<approval::Sender> find_sender(const std::string& container) const;
  void shut_down();
  void close();

  Claim claim_;  // goes last: everything below is protected by it
  Options options_;
  Config config_;
  const Log& log_;
  ipc::Loop loop_;
  std::unique_ptr<ledger::Ledger> ledger_;  // goes before the loop that it posts to
  ipc::Sessions sessions_;
  policy::Tokens tokens_;
  policy::Engine engine_;
  handlers::EventHub events_;
  policy::Profiles profiles_;
  containers::Registry containers_;
  containers::Workers workers_;
  pod::Roster pods_;
  containers::Groups groups_;
  scheduler::OutputRouter output_;
  scheduler::Scheduler scheduler_;
  scheduler::SignalHost signal_host_;
  egress::Link egress_;
  platform::AdaptersLink adapters_;
  containers::Cells cells_;
  approval::Deputy deputy_;
  approval::Gate gate_;
  EngineJudge judge_;
  mailbox::Mailbox mailbox_;
  handlers::Host host_;
  Pipeline pipeline_;
  Door control_{.name = "control"}, loopback_{.name = "loopback"}, stdio_{.name = "stdio"};
  std::map<std::string, std::unique_ptr<Door>> container_doors_;  // kept: sessions refer to them
  ipc::PeerVerifier verifier_;
  std::unique_ptr<ipc::LoopbackGate> loopback_gate_;
  std::unique_ptr<ipc::Listener> control_listener_, loopback_listener_;
  bool is_stopping_ = false, is_closed_ = false;
};

}  // namespace sallyport::warden

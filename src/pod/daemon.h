// The pod itself: one agent in its sandbox, one terminal, and whoever is attached to it.
//
//   starting -> published -> running (0..n clients) -> draining (agent reaped, terminal read to its end)
//            -> exited (status kept until collected or expired) -> gone
//
// One loop, one thread; a second one takes the sandbox down when its agent is over. The terminal is always read; no
// client is ever waited for. Losing a client, the state file or the warden ends nothing.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/base.h"
#include "egress/link.h"
#include "ipc/ipc.h"
#include "pod/device_queries.h"
#include "pod/output.h"
#include "pod/record.h"
#include "pod/reports.h"
#include "pod/screen.h"
#include "pod/startup.h"
#include "sandbox/cover_watch.h"
#include "sandbox/launch.h"
#include "sandbox/violations.h"

namespace sallyport::pod {

// The pod's directory, with its lock held: for as long as this lives, the pod does. The log is the program's standard
// error, too.
struct Claim {
  Place place;
  UniqueFd directory, lock, log;
};
// What the creator claimed and handed over.
Result<Claim> take_over(const Startup& startup);

class Daemon {
 public:
  // Launches the agent, opens the door, publishes the record. On error nothing is left. `worker` is what serves files
  // inside the agent's walls.
  static Result<std::unique_ptr<Daemon>> start(Startup startup, Claim claim, sandbox::WorkerEntry worker,
                                               const Log& log, const Clock& clock);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  void run();  // until the pod is gone

 private:
  friend class Service;
  using OutputPtr = std::shared_ptr<Output>;

  Daemon(Startup startup, Claim claim, const Log& log, const Clock& clock);
  Status launch(sandbox::WorkerEntry worker);
  Status open_egress();
  Status open_door();
  Status listen_unix();
  Status listen(UniqueFd listening);
  Status publish();
  // Files that somebody removed are put back: nobody would find a pod without them, though it lives.
  Status watch_place();
  Fire restore_what_is_removed();
  Status restore();
  void accept(UniqueFd connection, pid_t peer);
  Fire serve(std::shared_ptr<ipc::Session> session);

  // ---- the agent ----
  Fire watch_agent();
  // A file worker in its sandbox, at the other end of this socket.
  Task<Status> start_worker(int socket);
  Fire watch_violations();
  void look_at_covers();
  Fire watch_covers();
  Fire look_at_covers_at_times();
  void agent_ended(int wait_status);
  void kill_agent();
  Fire watch_idle();
  void check_silence(std::uint64_t output_before);
  void maybe_drained();
  void drained();
  void tell_end(std::vector<std::string> sentences);  // about what was left out, and what it left behind
  void stop_agent(Millis grace);
  void collect();
  void end_if_done();
  void end(bool remove);
  void stop_if_all_is_told();

  // ---- for the warden's records ----
  void report(const std::function<void(wire::JsonWriter&)>& members);
  void reports_taken(std::uint64_t number);
  void wake_reporter();
  struct Peer {
    pid_t pid = -1;       // not known on loopback TCP
    std::string voucher;  // of a warden that passes on what others ask
  };
  const Peer& peer_of(const ipc::Session& session) const;
  // Whoever takes the reports has written down what came through its own connections.
  bool is_wardens(const Peer& peer) const { return !peer.voucher.empty() && peer.voucher == warden_voucher_; }

  // ---- the terminal ----
  Fire read_terminal();
  bool pump();  // false: nobody has the terminal open
  void push_all();
  void type(ByteView bytes);
  Fire drain_input();
  void resize(const Size& size);
  Fire nudge();

  // ---- clients ----
  void attach(OutputPtr output);
  void detach(const Output& output);
  void detach_when_sent(const OutputPtr& output);
  bool is_attended() const;  // by anybody's terminal; a log that is followed is none
  void set_controller(const OutputPtr& output);
  void tell_exit(const OutputPtr& output);
  Fire read_input(OutputPtr output, std::shared_ptr<ipc::InStream> input);

  Startup startup_;
  Claim claim_;
  const Log& log_;
  const Clock& clock_;
  ipc::Loop loop_;
  ipc::Sessions sessions_;
  Record record_;
  Screen screen_;
  DeviceQueries queries_;
  std::unique_ptr<ipc::Watch> master_;
  std::optional<sandbox::Running> running_;
  std::map<std::uint32_t, std::shared_ptr<ipc::OneShot<Status>>> starting_workers_;  // by job
  std::uint32_t last_job_ = 0;
  std::string protections_;
  sandbox::ViolationLog violations_;
  std::unique_ptr<ipc::Watch> control_, violations_watch_, covers_watch_;
  std::optional<sandbox::CoverWatch> covers_;
  ipc::PeerVerifier verifier_;
  std::unique_ptr<ipc::LoopbackGate> gate_;
  std::unique_ptr<ipc::Listener> listener_;

  std::unique_ptr<ipc::Watch> place_watch_;
  std::optional<egress::Link> egress_;

  Reports reports_;
  std::shared_ptr<ipc::OneShot<bool>> reports_waiter_;
  std::weak_ptr<ipc::Session> warden_;  // that takes the reports
  std::string warden_voucher_;
  std::map<const ipc::Session*, Peer> peers_;

  std::vector<OutputPtr> outputs_;
  OutputPtr controller_;
  Bytes input_;  // typed, and not yet taken by the terminal
  Size size_;
  std::unique_ptr<std::uint8_t[]> buffer_;
  std::size_t held_ = 0;
  SteadyTime last_push_, last_nudge_, last_activity_;
  ipc::Loop::TimerId hold_timer_ = 0;

  std::vector<std::shared_ptr<ipc::OneShot<bool>>> waiters_;
  std::optional<int> wait_status_;
  std::thread ending_;
  bool is_draining_input_ = false;
  bool is_nudging_ = false;
  bool is_terminal_closed_ = false;
  bool is_drained_ = false;
  bool is_collected_ = false;
  bool is_told_to_end_ = false;
  bool has_ended_ = false;
};

}  // namespace sallyport::pod

// All containers of this warden: made, found, stopped, remembered.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "containers/container.h"
#include "containers/launcher_link.h"
#include "containers/places.h"
#include "ipc/ipc.h"
#include "sandbox/spec.h"

namespace sallyport::containers {

// Where containers keep what belongs to them on the host. Each container gets `<doors>/<id>/`, mounted at
// /run/sallyport, and `<mailboxes>/<id>/`, mounted below it: `in` with tmp and new as one mount that can be
// written, so that a rename between them is one, and `out`, which cannot.
struct Directories {
  std::string doors, mailboxes, records;
  std::string scans;  // see sandbox/scan_record.h
};

// Where the session of a group is kept: it outlasts the group's containers.
using SessionOf = std::function<Result<std::string>(const std::string& group)>;

// What befell a container without anybody having asked for it.
struct Incident {
  std::string container;
  std::string event;         // "container.exited"
  std::optional<Code> code;  // none: nothing is wrong about it
  std::string what;
};

struct Hooks {
  // A connection came in on this container's door.
  std::function<void(UniqueFd, const std::shared_ptr<Container>&)> on_connection;
  // For subscribers: container.started, container.exited, container.violation, container.finding, ...
  std::function<void(std::string_view event, const std::string& params)> on_event;
  // For the audit log: how it ended, what its walls refused, what it left behind, that it was lost.
  std::function<void(const Incident&)> on_incident;
  SessionOf session_of;
  // Its directories are there, and nothing runs yet; an error ends it.
  std::function<Status(const Container&)> on_prepared;
  // Whether it asked for something at its door since this was called last, or waits for an answer.
  std::function<bool(const std::string& id)> has_asked;
  // It is forgotten, and its directories are about to go.
  std::function<void(const std::string& id)> on_removed;
};

class Registry {
 public:
  Registry(ipc::Sessions& sessions, const Clock& clock, Directories directories, Hooks hooks);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Starts the launcher and reads what earlier wardens left. Containers to be started again are returned.
  Result<std::vector<std::shared_ptr<Container>>> open();
  // Ends the launcher, and with it all that runs. Whoever waits for a launch is told UNAVAILABLE, whoever waits for
  // a command that it was killed. What should be running stays so in its record, with what the scans at exit found:
  // the next warden finds it lost.
  void close();

  // A record with a door and a mailbox, before anything runs. CONFLICT if the name is taken.
  Result<std::shared_ptr<Container>> prepare(Config config);
  // Runs it. `spec` is the profile's; its binds and environment are completed with door and mailbox. The
  // container is `running` afterwards, or `failed` with the reason.
  Task<Status> launch(std::shared_ptr<Container> container, sandbox::Spec spec);
  // A sandbox that its caller makes itself: it counts as running until release().
  struct Adopted {
    pid_t pid = 0;    // its pid 1
    pid_t maker = 0;  // who made it and passes signals on
    os::NamespaceId pid_namespace;
  };
  Status adopt(Container& container, const Adopted& adopted);
  void release(Container& container, int wait_status);
  // A call, or `count` of them, that its seccomp filter refused: counted, published and recorded.
  void report(Container& container, const sandbox::Violation& violation);
  // What the scan at its exit found, a sentence each: recorded, published and logged, and kept with the container
  // unless that is forgotten already.
  void report(const std::string& id, const std::vector<std::string>& findings);
  // A pod's, which an earlier warden made and which still lives: its door is opened anew where it was.
  Status adopt_again(Container& container, const Adopted& adopted);
  // Nobody saw when it ended. Known from now on, and so recorded once. Of a pod's, whoever knows of pods says so.
  void record_loss(Container& container);

  // Takes what its command has written so far, and what waits in the pipe: whoever wrote something and then
  // spoke over the door expects it to be known.
  void drain_output(Container& container);

  // Starts a further command; the descriptors become its stdin, stdout and stderr.
  Result<std::shared_ptr<Job>> exec(Container& container, const sandbox::Command& command);
  // Starts the container's file worker on a socket; see containers/workers.h.
  Result<std::shared_ptr<Job>> start_worker(Container& container, int socket);
  Status signal(Container& container, std::uint32_t job, int signal);
  // Asks its command to end, and kills everything after the grace period.
  void stop(const std::shared_ptr<Container>& container, Millis grace);
  // Forgets one that is over, with everything that belonged to it.
  Status remove(const std::string& id);

  std::shared_ptr<Container> find(const std::string& id) const;
  const std::map<std::string, std::shared_ptr<Container>>& all() const { return containers_; }

  const std::string& scan_records() const { return directories_.scans; }

  // Binds and variables through which a sandbox reaches its door and mailbox.
  static void add_door(const Container& container, sandbox::Spec& spec);

 private:
  Status make_place(Container& container);
  static Status bind_door(Container& container);
  Status open_door(Container& container);
  void on_notice(sandbox::FromLauncher notice, std::vector<UniqueFd> fds);
  void on(const std::shared_ptr<Container>& container, sandbox::Launched& launched, std::vector<UniqueFd>& fds);
  void on(const std::shared_ptr<Container>& container, sandbox::LaunchFailed& failed, std::vector<UniqueFd>&);
  void on(const std::shared_ptr<Container>& container, sandbox::JobStarted& started, std::vector<UniqueFd>&);
  void on(const std::shared_ptr<Container>& container, sandbox::JobExited& exited, std::vector<UniqueFd>&);
  void on(const std::shared_ptr<Container>& container, sandbox::Violated& violated, std::vector<UniqueFd>&);
  void on(const std::shared_ptr<Container>& container, sandbox::Ended& ended, std::vector<UniqueFd>&);
  void on_made_up(sandbox::MadeUp& made_up);
  void make_up_scans();
  Fire make_up_scans_after(UniqueFd maker);
  void settle_launch(sandbox::Handle handle, Status status);
  void on_launcher_lost();
  void fail_launches(const Error& error);
  static void end_jobs(Container& container, const Error& error);
  void end(const std::shared_ptr<Container>& container, State state);
  static Incident end_of(const Container& container);
  std::shared_ptr<Container> by_handle(sandbox::Handle handle) const;
  Result<std::vector<UniqueFd>> capture_output(const std::shared_ptr<Container>& container);
  Fire read_log(std::shared_ptr<Container> container, std::shared_ptr<ipc::Watch> pipe, LogRing& ring);
  Fire delete_slowly(std::string path);
  void watch_idle(const std::shared_ptr<Container>& container);
  void publish(std::string_view event, const Container& container);
  void save(const Container& container);

  ipc::Sessions& sessions_;
  const Clock& clock_;
  Directories directories_;
  Hooks hooks_;
  Places places_;
  std::unique_ptr<LauncherLink> launcher_;
  std::map<std::string, std::shared_ptr<Container>> containers_;
  std::map<sandbox::Handle, std::shared_ptr<ipc::OneShot<Status>>> launching_;
  sandbox::Handle last_handle_ = 0;
  bool is_closed_ = false;
};

}  // namespace sallyport::containers

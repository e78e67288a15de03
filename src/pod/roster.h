// The warden's pods: made, found, watched. The state directory is the truth; the warden keeps nothing that a
// new one could not read from it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/base.h"
#include "ipc/ipc.h"
#include "pod/link.h"
#include "pod/record.h"
#include "pod/startup.h"

namespace sallyport::pod {

struct RosterHooks {
  // For subscribers: pod.exited, pod.lost.
  std::function<void(std::string_view event, const std::string& params)> on_event;
  // Something for the records: a report (see pod/reports.h), or "lost": how many there were before it.
  std::function<void(const Record&, wire::Value report)> on_report;
  // One that this warden did not make is there: at the warden's start, or as soon as it has published itself.
  std::function<void(const Record&)> on_found;
  // Its agent is over; the status, unless the pod was lost. No record: it died before it had published one.
  std::function<void(const std::string& name, const std::optional<Record>&, std::optional<int> wait_status)> on_end;
  // The net rules of its profile as they are now, for its proxy.
  std::function<policy::NetPolicy(const Record&)> net_policy;
};

class Roster {
 public:
  Roster(ipc::Sessions& sessions, const Clock& clock, std::string pods_dir, RosterHooks hooks)
      : sessions_(sessions), clock_(clock), pods_dir_(std::move(pods_dir)), hooks_(std::move(hooks)) {}
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  // At the warden's start: removes what dead pods left, and watches those that live.
  Status open();
  void close() { is_closed_ = true; }

  const std::string& pods_dir() const { return pods_dir_; }
  // Returns when the pod is published, or with its last words. CANCELLED if nobody wants it any more by then.
  Task<Result<Record>> create(Startup startup, std::function<bool()> is_wanted);
  // One that this warden found, and that may yet publish itself.
  bool is_starting(const std::string& name) const;
  // NOT_FOUND, or UNAVAILABLE with the last words of one that died. Does not wait for one that is starting.
  Result<Record> find(const std::string& name) const;
  // The connection that this session uses for this pod; one per pair, gone with the session or the pod.
  Task<Result<std::shared_ptr<Link>>> link(ipc::Session& asker, std::string name);
  // A connection for `pod.worker`: whatever is asked there is the warden's to write down.
  Task<Result<std::shared_ptr<ipc::Session>>> connect_for_worker(std::string name);
  // Profiles were read anew: tells every pod that lives.
  void apply_net_policies();

 private:
  // One pod's life, as far as this warden sees it.
  struct Watched {
    std::string name;
    std::optional<Record> record;
    std::shared_ptr<Link> link;  // while it can be reached
    std::uint64_t taken = 0;     // of its reports
    bool has_told_end = false;
  };
  // Takes its reports until it is gone, and tells when its agent ends. A connection that fails says nothing about
  // the pod: only its lock and its process do.
  enum class From : std::uint8_t { created, found };
  Fire watch(std::string name, From from, bool has_told_end = false);
  Task<Result<UniqueFd>> claim_for(const Startup& startup);
  Task<Result<Record>> wait_until_ready(const Startup& startup, UniqueFd said);
  // A pod that nobody will be told of must not run: ends all that its start began, and removes what it left.
  Task<Status> end_start(const Startup& startup, pid_t session);
  Task<bool> listen(std::shared_ptr<Watched> watched);
  void take(Watched& watched, wire::Value answer);
  void tell_end(Watched& watched, std::optional<int> wait_status);
  Fire tell_net_policy(std::shared_ptr<Watched> watched);
  Fire reap(pid_t pid);
  void unlink(const ipc::Session* asker, const std::string& name, const Link* link);

  ipc::Sessions& sessions_;
  const Clock& clock_;
  std::string pods_dir_;
  RosterHooks hooks_;
  const std::string voucher_ = random_hex(16);  // by which pods know this warden's connections
  std::map<std::string, std::weak_ptr<Watched>> watched_;
  struct Linked {
    wire::Token token;  // of the pod
    std::shared_ptr<Link> link;
  };
  std::map<const ipc::Session*, std::map<std::string, Linked>> links_;  // by who asks, and by pod
  bool is_closed_ = false;
};

}  // namespace sallyport::pod

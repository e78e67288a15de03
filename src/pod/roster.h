// The warden's pods: made, found, watched. The state directory is the truth; the warden keeps nothing that a
// new one could not read from it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/base.h"
#include "ipc/ipc.h"
#include "pod/link.h"
#include "pod/record.h"
#include "pod/startup.h"

namespace sallyport::pod {

class Roster {
 public:
  using OnEvent = std::function<void(std::string_view event, const std::string& params)>;
  Roster(ipc::Sessions& sessions, const Clock& clock, std::string pods_dir, OnEvent on_event)
      : sessions_(sessions), clock_(clock), pods_dir_(std::move(pods_dir)), on_event_(std::move(on_event)) {}
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  // At the warden's start: removes what dead pods left, and watches those that live.
  Status open();
  void close() { is_closed_ = true; }

  const std::string& pods_dir() const { return pods_dir_; }
  // Returns when the pod is published, or with its last words.
  Task<Result<Record>> create(Startup startup);
  // NOT_FOUND, or UNAVAILABLE with the last words of one that died. Does not wait for one that is starting.
  Result<Record> find(const std::string& name) const;
  // The connection that this session uses for this pod; one per pair, gone with the session.
  Task<Result<std::shared_ptr<Link>>> link(ipc::Session& asker, std::string name);

 private:
  // Tells subscribers when it ends. A connection that fails says nothing about the pod: only its lock and its
  // process do.
  Fire watch(std::string name);
  Fire reap(pid_t pid);

  ipc::Sessions& sessions_;
  const Clock& clock_;
  std::string pods_dir_;
  OnEvent on_event_;
  std::map<std::pair<const ipc::Session*, std::string>, std::shared_ptr<Link>> links_;
  bool is_closed_ = false;
};

}  // namespace sallyport::pod

// The place of a `sallyport run` with a warden that runs.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/base.h"
#include "client/client.h"
#include "egress/sums.h"
#include "os/paths.h"
#include "policy/net.h"
#include "sandbox/foreground.h"

namespace sallyport::cli {

// A door and a mailbox inside the sandbox, a line in the warden's lists, its connections in the warden's audit, and the
// net rules of its profile as they change. Without a warden the sandbox is the same, without any of this.
class Adoption {
 public:
  // Asks the running warden, if there is one, and puts the door into the sandbox. Without paths: no warden is wanted.
  Adoption(const os::Paths* paths, const std::string& profile, sandbox::Spec& spec);

  bool is_wanted() const { return client_ != nullptr; }
  const std::string& id() const { return id_; }
  void started(const sandbox::Running& running);

  // What the warden has to say; -1: nothing more.
  int poll_fd() const { return is_lost_ || !client_ ? -1 : client_->fd(); }
  void on_readable();
  // Another policy of the profile, if one came.
  std::optional<policy::NetPolicy> take_policy() { return std::exchange(policy_, std::nullopt); }

  // Goes to the warden at once, without waiting for it.
  void report(const egress::Report& report);
  // After the last report: waits until the warden has them, but not for ever.
  void finish();
  std::uint64_t unrecorded() const { return unrecorded_; }  // reports that it did not take

  void refused(const std::function<void(wire::JsonWriter&)>& violations);
  void found(const std::vector<std::string>& findings);
  void ended(int wait_status);

 private:
  void tell(const std::function<void(wire::JsonWriter&)>& what);
  void send_reports();
  void lose(std::uint64_t reports);

  std::string id_;
  std::deque<egress::Report> waiting_;
  egress::Sums beyond_;  // those for which there is no room
  std::uint64_t in_flight_ = 0, unrecorded_ = 0;
  std::optional<policy::NetPolicy> policy_;
  bool is_lost_ = false;  // the warden is gone
  std::unique_ptr<Client> client_;
};

}  // namespace sallyport::cli

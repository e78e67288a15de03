// The warden's end of the proxy.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/base.h"
#include "egress/protocol.h"
#include "egress/tally.h"
#include "ipc/loop.h"
#include "os/spawn.h"

namespace sallyport::egress {

// Starts `sallyport-egress` with an empty environment. `hosts_file`: see resolver.h; empty for the machine's resolver.
Result<os::Spawned> spawn_proxy(const std::string& hosts_file);

// Starts the proxy when the first container needs one, and a new one whenever it dies: the listeners are kept here, so
// containers notice no more than that their connections ended.
class Link {
 public:
  using OnReport = std::function<void(const Report&)>;
  Link(ipc::Loop& loop, const Log& log, std::string hosts_file, OnReport on_report);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // From now on this container's connections are served. UNAVAILABLE if there is no proxy to be had.
  Status serve(const std::string& container, UniqueFd listener, policy::NetPolicy policy);
  // The same for one whose maker runs a proxy himself: he is told what changes, at once if everything is denied now,
  // and says with take() what his proxy reported.
  using OnPolicy = std::function<void(const policy::NetPolicy&)>;
  void follow(const std::string& container, policy::NetPolicy policy, OnPolicy on_policy);
  void take(Report report);
  void update(const std::string& container, policy::NetPolicy policy);
  // The host's policy has a fault: everybody's connections are refused, also of those that come later, until
  // trust_again() and then an update() for each.
  void deny_all();
  void trust_again();
  void stop(const std::string& container);
  // Also of one that was stopped, unless many others were since.
  const Tally* tally(const std::string& container) const;

  pid_t pid() const;  // -1: none runs
  const std::string& hosts_file() const;
  void close();

 private:
  struct State;
  // What the proxy is still to be told of a container.
  enum class What : std::uint8_t { serve, update, stop };
  std::shared_ptr<State> state_;
  static Status start(const std::shared_ptr<State>& state);
  static void tell(const std::shared_ptr<State>& state, const std::string& container);
  static void order(const std::shared_ptr<State>& state, const std::string& container, What what);
  // In order, as the proxy takes them.
  static Fire send_orders(std::shared_ptr<State> state);
  static Fire listen(std::shared_ptr<State> state);
};

}  // namespace sallyport::egress

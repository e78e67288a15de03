// The proxy: containers, each known by the listener that its connections come in on.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/base.h"
#include "egress/authorize.h"
#include "egress/protocol.h"
#include "egress/relay.h"
#include "egress/resolver.h"
#include "egress/sums.h"
#include "ipc/ipc.h"

namespace sallyport::egress {

class Connection;

// A container as the proxy knows it.
struct Served {
  Account account;
  std::unique_ptr<ipc::Listener> listener;
  std::set<Connection*> connections;

  bool is_stopped = false;

  // Refusals that may still be reported one by one, and those that may not.
  double refusal_credit = 0;
  SteadyTime refusal_time;
  Sums refusals;
};

class Proxy {
 public:
  using OnReport = std::function<void(const Report&)>;
  Proxy(ipc::Sessions& sessions, Resolver& resolver, OnReport on_report);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  Status serve(Serve order, UniqueFd listener);
  void update(Update order);
  void stop(const std::string& container);
  // Reports what has been counted only; for the end.
  void finish();

  // ---- for connections ----
  ipc::Loop& loop() { return sessions_.loop(); }
  Resolver& resolver() { return resolver_; }
  Bytes& block() { return block_; }  // until the next co_await
  // Refusals beyond a rate are counted, host by host, and told when the rate allows it or the container ends.
  void report(Served& served, Report report);
  std::uint64_t next_number() { return ++last_number_; }

 private:
  void accept(const std::shared_ptr<Served>& served, UniqueFd fd);
  void share_out();
  static bool takes_credit(Served& served);
  void sweep();

  ipc::Sessions& sessions_;
  Resolver& resolver_;
  OnReport on_report_;
  Bytes block_;
  std::map<std::string, std::shared_ptr<Served>> containers_;
  std::uint64_t last_number_ = 0;
  ipc::Loop::TimerId sweep_timer_ = 0;
};

}  // namespace sallyport::egress

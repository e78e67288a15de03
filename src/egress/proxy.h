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
#include "ipc/ipc.h"

namespace sallyport::egress {

class Connection;

// A container as the proxy knows it.
struct Served {
  std::string id;
  Account account;
  std::unique_ptr<ipc::Listener> listener;
  std::set<Connection*> connections;

  // Refusals that may still be reported one by one.
  double refusal_credit = 0;
  SteadyTime refusal_time;
  std::uint64_t suppressed = 0;
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

  // ---- for connections ----
  ipc::Loop& loop() { return sessions_.loop(); }
  Resolver& resolver() { return resolver_; }
  RelayMemory& memory() { return memory_; }
  // Refusals beyond a rate are counted, and told with the next one.
  void report(Served& served, Report report);
  std::uint64_t next_number() { return ++last_number_; }

 private:
  void accept(const std::shared_ptr<Served>& served, UniqueFd fd);
  void sweep();

  ipc::Sessions& sessions_;
  Resolver& resolver_;
  OnReport on_report_;
  RelayMemory memory_;
  std::map<std::string, std::shared_ptr<Served>> containers_;
  std::uint64_t last_number_ = 0;
  ipc::Loop::TimerId sweep_timer_ = 0;
};

}  // namespace sallyport::egress

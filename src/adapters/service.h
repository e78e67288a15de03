// The adapters of one configuration, behind one connection: that of the warden.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/turns.h"

namespace sallyport::adapters {

class Service {
 public:
  explicit Service(Machinery& machinery) : machinery_(machinery) {}

  // Serves until the peer ends the connection.
  Fire serve(std::shared_ptr<ipc::Session> session);

 private:
  struct Candidate {
    std::string implementation;
    std::shared_ptr<Adapter> adapter;  // null: it could not be built
    Error problem;
  };
  // One role: the candidates in their order, and the one in use.
  struct Slot {
    std::vector<Candidate> candidates;
    std::shared_ptr<Adapter> active;
    std::string implementation;
    std::string reason, detail;  // why there is none, or it is down; the second for the host only
    std::string passed_over;     // why those before the one in use were not taken; for the host only
    std::int64_t latency_us = -1;
    std::uint64_t calls = 0, failures = 0;
    bool is_decided = false;  // all were asked once
    bool is_choosing = false;
    bool is_recovering = false;                                // it is down, and asked again and again
    std::vector<std::shared_ptr<ipc::OneShot<bool>>> waiting;  // for the choice under way
    Turns turns;
  };

  Fire answer(std::shared_ptr<ipc::Session> session, wire::Message&& request);
  Task<ipc::Reply> handle(ipc::Call& call);
  Task<ipc::Reply> configure(ipc::Call& call);
  Task<ipc::Reply> report(ipc::Call& call);
  Task<ipc::Reply> count(ipc::Call& call);
  Task<ipc::Reply> forget(ipc::Call& call);
  // The adapter of a role that keeps something; null if the role has none. UNAVAILABLE if it cannot be had.
  Task<Result<std::shared_ptr<Adapter>>> keeper(platform::Role role, ipc::Call& call);
  Task<ipc::Reply> operate(const platform::Operation& operation, ipc::Call& call);
  // Takes the first candidate that answers. True if one did.
  Task<bool> choose(platform::Role role, Slot& slot);
  // Asks until one is there. No role waits for another's.
  Fire decide(platform::Role role);
  Task<bool> wait_for_choice(Slot& slot, Millis patience, ipc::Call* call = nullptr);
  Task<Status> probe(const Candidate& candidate, std::int64_t& latency_us);
  // The one in use: asked whether it still is there, and what a call saw of it.
  Task<bool> check(platform::Role role, Slot& slot);
  void note(platform::Role role, Slot& slot, const Status& seen);
  Fire recover(platform::Role role);
  // All roles at once.
  Task<bool> ask_all();
  Fire ask_one(platform::Role role, std::function<void()> done);
  void describe(wire::JsonWriter& json, const Slot& slot) const;

  Machinery& machinery_;
  platform::Config config_;
  bool is_configured_ = false;
  std::map<platform::Role, Slot> slots_;
};

}  // namespace sallyport::adapters

// The adapters of one configuration, behind one connection: that of the warden.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "adapters/adapter.h"

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
    std::string reason, detail;  // why there is none; the second for the host only
    std::int64_t latency_us = -1;
    std::uint64_t calls = 0, failures = 0;
    bool is_waiting = false;  // for a backend, which is asked again and again
  };

  Fire answer(std::shared_ptr<ipc::Session> session, wire::Message&& request);
  Task<ipc::Reply> handle(ipc::Call& call);
  Task<ipc::Reply> configure(ipc::Call& call);
  Task<ipc::Reply> report(ipc::Call& call);
  Task<ipc::Reply> operate(const platform::Operation& operation, ipc::Call& call);
  // Takes the first candidate that answers. True if one did.
  Task<bool> choose(platform::Role role, Slot& slot);
  Task<Status> probe(Adapter& adapter, std::int64_t& latency_us);
  Fire choose_later(platform::Role role);
  void describe(wire::JsonWriter& json, const Slot& slot) const;

  Machinery& machinery_;
  platform::Config config_;
  bool is_configured_ = false;
  std::map<platform::Role, Slot> slots_;
};

}  // namespace sallyport::adapters

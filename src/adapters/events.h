// The role `events`: publish and subscribe, within a tenant; in this process, or through Redis to others.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "adapters/adapter.h"

namespace sallyport::adapters {

// Who listens to what. A subscription is a call that lasts until it is given up; what it hears are events with
// its id, the first of them `events.subscribed`.
//
// What is published crosses to the warden once, as an event `events.message {to:[ids],topic,payload}`, however many
// listen; the warden has a copy for each (see platform::AdaptersLink), and room for so many of them.
class Subscriptions {
 public:
  Task<ipc::Reply> subscribe(ipc::Call& call, const std::string& tenant);
  // How many were told. None while too much waits for the warden: they are told later how many they missed.
  std::int64_t publish(const std::string& tenant, const std::string& topic, std::string_view payload_json);
  bool are_any() const { return !subscribers_.empty(); }

 private:
  struct Subscriber {
    ipc::Call* call;
    std::string tenant;
    std::vector<std::string> topics;
    std::uint64_t lost = 0;
  };
  std::list<Subscriber> subscribers_;
};

std::unique_ptr<Adapter> make_memory_events();
std::unique_ptr<Adapter> make_redis_events(const platform::Config& config, Machinery& machinery);

}  // namespace sallyport::adapters

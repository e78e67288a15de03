// The warden's end of sallyport-adapters: started when the first call needs it, again after it died, and anew
// when the configuration changed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "ipc/ipc.h"
#include "os/spawn.h"
#include "platform/admission.h"
#include "platform/config.h"

namespace sallyport::platform {

class AdaptersLink {
 public:
  struct Place {
    std::string state_dir;          // where adapters that keep files put them unless they are told otherwise
    std::string egress_hosts = {};  // for the proxy of third-party adapters; see egress/resolver.h
    // A connection of a third-party adapter: {"adapter":NAME,"report":{...}}, as egress/protocol.h writes it.
    std::function<void(wire::Value)> on_connection = {};
  };
  AdaptersLink(ipc::Sessions& sessions, Config config, Place place)
      : sessions_(sessions), config_(std::move(config)), config_hash_(hash_of(config_)), place_(std::move(place)) {}
  ~AdaptersLink() { close(); }
  AdaptersLink(const AdaptersLink&) = delete;
  AdaptersLink& operator=(const AdaptersLink&) = delete;

  const Config& config() const { return config_; }
  const std::string& config_hash() const { return config_hash_; }  // hash_of(config())
  // Another configuration ends the process; the next call starts one with the new.
  void set_config(Config config);

  // The connection to adapters that are configured. UNAVAILABLE (retryable) if they cannot be had now.
  Task<Result<std::shared_ptr<ipc::Session>>> session();
  Admissions& admissions() { return admissions_; }
  pid_t pid() const { return pid_; }
  void close();

 private:
  Task<Result<std::shared_ptr<ipc::Session>>> start();
  Status spawn();
  // What was published crosses once, and is copied here for everybody who listens and has room for it.
  void tell_subscribers(ipc::Session& session, const wire::Message& event);
  Task<Status> configure(std::shared_ptr<ipc::Session> session);
  // Asks now and then whether it still answers. One that does not is ended, and the next call starts another.
  void watch();
  Fire listen(std::shared_ptr<ipc::Session> session, os::Child adapters);

  ipc::Sessions& sessions_;
  Config config_;
  std::string config_hash_;
  Place place_;
  Admissions admissions_;
  std::shared_ptr<ipc::Session> session_;  // configured, or being so
  pid_t pid_ = -1;
  bool is_starting_ = false;
  SteadyTime asked_at_;
  ipc::Loop::TimerId watchdog_ = 0;                             // while it is asked
  std::vector<std::shared_ptr<ipc::OneShot<Status>>> waiting_;  // for the start that is under way
};

}  // namespace sallyport::platform

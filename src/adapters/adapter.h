// One implementation of one role, as the service sees it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/base.h"
#include "ipc/ipc.h"
#include "platform/config.h"

namespace sallyport::containers {
class Cells;
}
namespace sallyport::egress {
class Link;
}

namespace sallyport::adapters {

class Adapter {
 public:
  Adapter() = default;
  virtual ~Adapter() = default;
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  // Whether it can be used now: asked at the start, when somebody wants to know, and until it can.
  virtual Task<Status> probe() = 0;
  // `verb` is the method without its role. The parameters were checked by the warden, which also wrote
  // "$tenant" and the name of the scope.
  virtual Task<ipc::Reply> handle(std::string_view verb, ipc::Call& call) = 0;
  // Whether it does one thing after the other, so that calls have to take turns.
  virtual bool takes_turns() const { return false; }
  // What it keeps of a tenant, as its answers count it. UNIMPLEMENTED if it cannot tell.
  virtual Task<Result<std::int64_t>> stored_bytes(const std::string& tenant);
  // Removes all that it keeps of a tenant that is no more. UNIMPLEMENTED if it cannot.
  virtual Task<Status> forget(const std::string& tenant);
  // Members that tell workers what it is: models, dimensions, is_model.
  virtual void describe(wire::JsonWriter& json) const { static_cast<void>(json); }
};

using platform::Scope;
// INVALID_REQUEST if the tenant is missing: nothing is done for nobody.
Result<Scope> scope_of(ipc::Call& call, std::string_view field);

// What a backend said, for a caller: that it is not there, and that trying again may help.
Error backend_down(std::string detail);
// The error of a write that certainly stored nothing: details {"stored_bytes":0}. Without it, one that broke off counts
// as if it had been made.
Error nothing_stored(Error error);

class Http;
class Redis;
class ThirdParty;

// What all adapters of this process share. A backend has one pool of connections, whatever roles it serves, and a
// program of others runs once.
struct Machinery {
  ipc::Sessions& sessions;
  const Log& log;
  const Clock& clock;
  std::string state_dir = {};
  std::shared_ptr<Http> http = {};
  std::shared_ptr<Redis> redis = {};
  std::shared_ptr<containers::Cells> cells = {};
  std::shared_ptr<egress::Link> egress = {};  // for third-party adapters that name hosts
  std::string egress_hosts = {};
  std::function<void(std::string_view method, const std::string& params)> tell_warden = {};
  std::map<std::string, std::shared_ptr<ThirdParty>> third_party = {};
};

// UNIMPLEMENTED if there is none of that name. Does not block; `config` must outlive it.
Result<std::unique_ptr<Adapter>> make_adapter(platform::Role role, const std::string& implementation,
                                              const platform::Config& config, Machinery& machinery);

}  // namespace sallyport::adapters

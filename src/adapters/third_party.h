// Adapters that did not come with us: executables in any language that speak the frames on descriptor 3, pinned
// by hash, each in a sandbox of its own. It gets the credential that is named for it, and no network: there is no
// egress yet.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "adapters/adapter.h"
#include "containers/launcher_link.h"

namespace sallyport::adapters {

// The launcher that makes their sandboxes; started when the first one is needed.
class Sandboxes {
 public:
  Sandboxes(ipc::Loop& loop, const Log& log) : loop_(loop), log_(log) {}

  // A sandbox in which `program` runs with the socket as its descriptor 3. UNAVAILABLE if it cannot be made.
  Task<Result<sandbox::Handle>> start(sandbox::Spec spec, std::string program, int socket);
  void kill(sandbox::Handle handle);

 private:
  struct Starting {
    ipc::OneShot<Status> launched, started;
  };
  Status open();
  void on_notice(const sandbox::FromLauncher& notice);

  ipc::Loop& loop_;
  const Log& log_;
  std::unique_ptr<containers::LauncherLink> launcher_;
  std::map<sandbox::Handle, std::shared_ptr<Starting>> starting_;
  sandbox::Handle last_ = 0;
};

// One program; several roles may share it.
class ThirdParty : public std::enable_shared_from_this<ThirdParty> {
 public:
  ThirdParty(std::string name, const platform::Config& config, Machinery& machinery,
             std::shared_ptr<Sandboxes> sandboxes);

  // The connection to the program, which has agreed on protocol and role. Started again after it died.
  Task<Result<std::shared_ptr<ipc::Session>>> session();
  void kill();

 private:
  Task<Status> start();
  Task<Status> greet(std::shared_ptr<ipc::Session> session);
  Fire listen(std::shared_ptr<ipc::Session> session, sandbox::Handle handle);
  // A copy of the program that has the pinned hash, where nobody else writes.
  Result<std::string> pinned_copy() const;

  std::string name_;
  const platform::Config& config_;
  Machinery& machinery_;
  std::shared_ptr<Sandboxes> sandboxes_;
  std::shared_ptr<ipc::Session> session_;
  sandbox::Handle handle_ = 0;
  bool is_starting_ = false;
  std::vector<std::shared_ptr<ipc::OneShot<Status>>> waiting_;
};

std::unique_ptr<Adapter> make_third_party(platform::Role role, std::shared_ptr<ThirdParty> party, Machinery& machinery);

}  // namespace sallyport::adapters

// Adapters that did not come with us: executables in any language that speak the frames on descriptor 3, pinned
// by hash, each in a sandbox of its own. It gets the credential that is named for it, and reaches the hosts that are
// named for it, through an egress proxy of the adapters' own; without any it has no network.
#pragma once

#include <memory>
#include <string>

#include "adapters/adapter.h"
#include "containers/cells.h"

namespace sallyport::adapters {

// One program; several roles may share it.
class ThirdParty : public std::enable_shared_from_this<ThirdParty> {
 public:
  ThirdParty(std::string name, const platform::Config& config, Machinery& machinery,
             std::shared_ptr<containers::Cells> cells);

  // The connection to the program, which has agreed on protocol and role. Started again after it died.
  Task<Result<std::shared_ptr<ipc::Session>>> session();
  void kill();
  // What it said of a failure, as far as it may be read by others: the code where it is one that an adapter can mean,
  // and a sentence of ours. Its own words are for the log, and not even for that if they hold its credential.
  Error translate(const Error& said) const;

 private:
  Task<Status> start();
  Task<Status> greet(std::shared_ptr<ipc::Session> session);
  Fire listen(std::shared_ptr<ipc::Session> session);
  // A copy of the program that has the pinned hash, where nobody else writes.
  Result<std::string> pinned_copy() const;
  // Hands its listener to the proxy, which then knows whose connections come there.
  void serve_proxy(UniqueFd listener);
  void drop_cell();

  std::string name_;
  std::string secret_;  // that it was given
  const platform::Config& config_;
  Machinery& machinery_;
  std::shared_ptr<containers::Cells> cells_;
  std::shared_ptr<void> cell_;  // its sandbox, while there is one
  std::shared_ptr<ipc::Session> session_;
  bool is_starting_ = false;
  std::vector<std::shared_ptr<ipc::OneShot<Status>>> waiting_;
};

std::unique_ptr<Adapter> make_third_party(platform::Role role, std::shared_ptr<ThirdParty> party, Machinery& machinery);

}  // namespace sallyport::adapters

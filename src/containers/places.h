// The directories of containers on the host, some of them made ahead: a dozen of them cost more than all else that
// the warden does for a container before it runs.
#pragma once

#include <string>
#include <vector>

#include "base/base.h"
#include "ipc/loop.h"

namespace sallyport::containers {

inline constexpr const char* kDoorName = "door.sock";
// For programs inside: raises signals without anybody having to write the files.
inline constexpr const char* kSignalProgram = "sallyport-signal";

class Places {
 public:
  // Below `doors` the mount points, below `mailboxes` what is mounted there; see Directories.
  Places(ipc::Loop& loop, std::string doors, std::string mailboxes)
      : loop_(loop), doors_(std::move(doors)), mailboxes_(std::move(mailboxes)) {}
  ~Places() { close(); }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  // Takes away what an earlier warden kept ready, and begins to make some.
  void open();
  // `<doors>/<id>` and `<mailboxes>/<id>` are there afterwards, with all that belongs in them. The door's socket, which
  // listens.
  Result<UniqueFd> make(const std::string& id);
  // Of a container that could not be made.
  void remove(const std::string& id) const;
  // Makes some for those that come later, unless there are enough: not before this time has passed without a call of
  // this kind or a place that was made. What has just begun needs the CPUs.
  void refill_later(Millis delay);
  // Takes away what nobody used.
  void close();

 private:
  struct Place {
    std::string name;
    UniqueFd door;  // which listens
  };
  Result<Place> make_one(const std::string& name) const;
  void refill();

  ipc::Loop& loop_;
  std::string doors_, mailboxes_;
  std::vector<Place> spares_;
  ipc::Loop::TimerId refill_ = 0;
  std::uint64_t made_ = 0;
  bool is_open_ = false;
};

}  // namespace sallyport::containers

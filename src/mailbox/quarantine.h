// What was refused, and why: the newest of each container, for people to look at.
//
// A file per refusal, written by the host: `<directory>/<container>/<number>.json`. Nothing that a container
// made is moved here, only a copy of the bytes that were read.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "base/base.h"

namespace sallyport::mailbox {

struct Refusal {
  std::uint64_t number = 0;
  std::int64_t time_ms = 0;
  std::string name;  // of the file; over the door: the signal's
  std::string code, reason;
  std::uint64_t bytes = 0;
};

class Quarantine {
 public:
  explicit Quarantine(std::string directory) : directory_(std::move(directory)) {}

  // Reads what earlier wardens kept of this container.
  void open(const std::string& container);
  // `content` may be empty where nothing was read. A disk that takes nothing costs the copy, not the listing.
  void add(const std::string& container, Refusal refusal, std::string_view content);
  const std::deque<Refusal>& of(const std::string& container) const;
  void remove(const std::string& container);

 private:
  std::string path_of(const std::string& container, std::uint64_t number) const;

  std::string directory_;
  std::map<std::string, std::deque<Refusal>, std::less<>> refusals_;  // the oldest first
};

}  // namespace sallyport::mailbox

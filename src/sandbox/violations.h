// What a sandbox was refused by seccomp, told by the kernel call by call.
//
// The supervisor answers every notified call with its rule's error; none is ever let through, so
// nothing depends on arguments that the caller could change in memory meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sallyport::sandbox {

struct Violation {
  std::string operation;  // "mount"
  std::string target;     // what the arguments say without reading the caller's memory: "family 38"
  std::string rule;       // "mounts"
  int error = 0;          // what the caller got
  std::int64_t unix_millis = 0;
  std::uint64_t count = 1;
};

// Collects and counts; the same (operation, target) is one entry. Bounded: what does not fit is
// counted in `dropped`.
class ViolationLog {
 public:
  static constexpr std::size_t kMaxEntries = 256;
  static constexpr int kMostAtOnce = 64;

  // Counts one that was seen elsewhere.
  void add(Violation violation);
  // Answers what is waiting on the listener, without blocking, and not for ever: there are others to serve. False: the
  // sandbox is gone.
  bool serve(int listener);

  const std::vector<Violation>& entries() const { return entries_; }
  std::uint64_t total() const { return total_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::vector<Violation> entries_;
  std::uint64_t total_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace sallyport::sandbox

// What a container's connections came to, per host: for people, and for a proxy that takes over.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "egress/protocol.h"
#include "wire/json.h"
#include "wire/limits.h"

namespace sallyport::egress {

class Tally {
 public:
  struct Reason {
    std::string rule, reason, remedy;
    std::uint64_t count = 0;
  };
  struct Entry {
    std::uint64_t opened = 0, refused = 0, failed = 0;
    std::uint64_t cut = 0;  // of those opened: by a limit, or because the policy changed
    std::uint64_t sent = 0, received = 0;
    std::vector<Reason> reasons;  // of refusals, failures and cuts: the first kMaxReasons different ones
  };
  // Beyond kMaxHostsCounted, hosts that are new count as one: "(others)".
  void add(const Report& report);

  Usage used() const { return used_; }
  const std::map<std::pair<std::string, std::uint16_t>, Entry>& entries() const { return entries_; }
  // An array. It ends when all of the text has `most` bytes: whoever is asked answers with one frame.
  void write(wire::JsonWriter& json, std::size_t most = kMostInAFrame) const;

 private:
  static constexpr std::size_t kMostInAFrame = wire::kMaxFrameBytes - (64U << 10);
  static void write_entry(wire::JsonWriter& json, const std::pair<std::string, std::uint16_t>& target,
                          const Entry& entry);

  std::map<std::pair<std::string, std::uint16_t>, Entry> entries_;
  Usage used_;
};

}  // namespace sallyport::egress

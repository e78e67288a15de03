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
  // An array of all.
  void write(wire::JsonWriter& json) const { write(json, SIZE_MAX); }
  // The member `net` of an answer, which is one frame; `net_left_out` says how many hosts did not fit, if any.
  void describe(wire::JsonWriter& json) const;

 private:
  // Ends when all of the text has `most` bytes; how many are left out.
  std::size_t write(wire::JsonWriter& json, std::size_t most) const;
  static void write_entry(wire::JsonWriter& json, const std::pair<std::string, std::uint16_t>& target,
                          const Entry& entry);

  std::map<std::pair<std::string, std::uint16_t>, Entry> entries_;
  Usage used_;
};

}  // namespace sallyport::egress

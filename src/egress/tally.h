// What a container's connections came to, per host: for people, and for a proxy that takes over.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "egress/protocol.h"
#include "wire/json.h"

namespace sallyport::egress {

class Tally {
 public:
  struct Entry {
    std::uint64_t opened = 0, refused = 0, failed = 0;
    std::uint64_t sent = 0, received = 0;
    std::string rule, reason, remedy;  // of the last refusal or failure
  };
  // Beyond kMaxHostsCounted, hosts that are new count as one: "(others)".
  void add(const Report& report);

  Usage used() const { return used_; }
  std::uint64_t refused() const { return refused_; }
  const std::map<std::pair<std::string, std::uint16_t>, Entry>& entries() const { return entries_; }
  void write(wire::JsonWriter& json) const;  // an array

 private:
  std::map<std::pair<std::string, std::uint16_t>, Entry> entries_;
  Usage used_;
  std::uint64_t refused_ = 0;
};

}  // namespace sallyport::egress

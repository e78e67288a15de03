// Reports that come faster than they can be told: like ones are counted, and none is forgotten.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "egress/protocol.h"

namespace sallyport::egress {

class Sums {
 public:
  // Joins the one that differs in nothing but its number and its bytes. Beyond kMaxHostsCounted different ones, what is
  // new is counted as one per container, kind and code: of "(others)".
  void add(Report report);
  bool is_empty() const { return reports_.empty(); }
  Report take();  // the oldest; there must be one

 private:
  using Key = std::tuple<std::string, Report::Kind, Protocol, std::string, std::uint16_t, std::optional<Code>,
                         std::string, std::string>;
  static Key key_of(const Report& report);

  std::list<Report> reports_;
  std::map<Key, std::list<Report>::iterator> by_key_;
};

}  // namespace sallyport::egress

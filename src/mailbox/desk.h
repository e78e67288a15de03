// What the warden keeps at hand about one container's mailbox.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/base.h"
#include "ledger/rates.h"
#include "mailbox/box.h"

namespace sallyport::mailbox {

class Desk {
 public:
  explicit Desk(std::unique_ptr<Box> box) : box_(std::move(box)) {}

  Box& box() { return *box_; }
  const std::string& container() const { return box_->container(); }

  // Writes a reply; one that the disk does not take is kept and tried again by retry_replies(). What is final
  // is kept track of until it expires; `is_journalled` says whether a row must expire with it. Ages are measured by
  // the steady clock: a jump of the wall clock takes no reply away and keeps none for ever.
  void reply(const std::string& request_id, const std::string& json, SteadyTime now, bool is_final, bool is_journalled);
  // Keeps track of one that somebody else has written, or failed to.
  void replied(const std::string& request_id, const std::string& json, SteadyTime now, bool is_final,
               bool is_journalled, const Status& written);
  // An earlier reply that the disk did not take is not tried again.
  void forget_unwritten(const std::string& request_id) { unwritten_.erase(request_id); }
  // A final reply of an earlier warden: written again if what lies there is another, an interim one for instance.
  void restore_reply(const std::string& request_id, const std::string& json, SteadyTime since);
  void retry_replies();
  // Takes those out that are too old or too many: the ids of all, and of the rows among them.
  struct Expired {
    std::vector<std::string> files, rows;
  };
  Expired take_expired(SteadyTime now);
  std::size_t replies() const { return kept_.size(); }
  // Whether the journal has it and its final reply has not expired. A refusal that left nothing there does not count.
  bool has_answered(const std::string& request_id) const {
    const auto found = known_.find(request_id);
    return found != known_.end() && found->second;
  }
  std::size_t unwritten_replies() const { return unwritten_.size(); }

  // Names of files that were read and are on their way into the ledger.
  std::unordered_set<std::string> accepting;
  std::size_t waiting = 0;     // for a review
  std::size_t running = 0;     // programs of its signals
  std::int64_t requests = 0;   // of tier 2 in the journal, tombstones included
  std::uint64_t accepted = 0;  // since the warden started, as the next
  std::uint64_t refused = 0, suppressed = 0;
  ledger::Micros refusals = 0;  // state of kRefusalRate
  std::string fault;            // why nothing is taken from it; empty: all is well
  bool is_overloaded = false;   // as of the last look
  bool is_removed = false;

 private:
  struct Kept {
    std::string request_id;
    SteadyTime since;
  };
  void keep(const std::string& request_id, SteadyTime since, bool is_journalled);

  std::unique_ptr<Box> box_;
  std::deque<Kept> kept_;                        // the oldest first
  std::unordered_map<std::string, bool> known_;  // those of kept_, and whether they are journalled
  std::map<std::string, std::string> unwritten_;
};

}  // namespace sallyport::mailbox

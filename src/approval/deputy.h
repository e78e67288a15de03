// The deputy of a container: the built-in one, or the executable that its profile names.
//
// An executable deputy is started for each review in a cell of its own and speaks our frames on fd 3:
//   -> deputy.review {subject, container, payload, sha256}     payload: the canonical bytes, as text
//   <- {verdict: "approve"|"reject"|"modify", sha256, why?, payload?}   payload of modify: an object
// Late, garbled, for another hash, dead or flooding: refused. It can only restrict.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "approval/cell.h"
#include "approval/review.h"
#include "approval/rule_deputy.h"
#include "base/base.h"
#include "ipc/ipc.h"
#include "wire/wire.h"

namespace sallyport::approval {

// What a deputy's answer says about this matter; a rejection if it says nothing that counts.
Verdict read_verdict(const Matter& matter, wire::Value answer);

class Deputy final : public Reviewer {
 public:
  // The host's own requests have no container; a container that is unknown has no sender.
  using FindSender = std::function<std::optional<Sender>(const std::string& container)>;

  Deputy(ipc::Sessions& sessions, const Clock& clock, FindSender find_sender, StartCell start_cell);

  Task<Verdict> review(Matter matter) override;

 private:
  // Whether a review for this container may begin; counts it if so.
  bool begin(const std::string& container);
  // A review is over: whoever waited longest and may begin does.
  void end(const std::string& container);
  Task<Verdict> ask(const Matter& matter, const Sender& sender);
  Task<Verdict> converse(const Matter& matter, const Sender& sender, UniqueFd socket);
  static Fire listen(std::shared_ptr<ipc::Session> session);

  ipc::Sessions& sessions_;
  FindSender find_sender_;
  StartCell start_cell_;
  RuleDeputy rules_;
  std::size_t at_work_ = 0;
  std::map<std::string, std::size_t> at_work_for_;  // by container; the host is the empty one
  struct Waiting {
    std::string container;
    std::shared_ptr<ipc::OneShot<bool>> turn;
  };
  std::deque<Waiting> queue_;
};

}  // namespace sallyport::approval

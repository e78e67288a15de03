// Policy, as the mailbox asks it. The warden implements this with its one engine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "ledger/rates.h"
#include "permit/permit.h"
#include "wire/json.h"

namespace sallyport::mailbox {

struct Judgement {
  bool is_denied = true;
  bool needs_deputy = false;
  bool needs_human = false;
  std::string rule;                   // which decided
  std::string why;                    // for the log; the sender is told nothing of the rules
  std::vector<ledger::Limit> limits;  // every one must let it pass
  std::string counts_as;              // whose limits they are
};

// What reviewers said.
struct Approvals {
  bool deputy = false;
  bool human = false;
};

class Judge {
 public:
  virtual ~Judge() = default;
  virtual Judgement consider(const Principal& who, std::string_view signal, wire::Value payload) const = 0;
  // Asks again, and only policy answers. `signal` must live as long as the table of signals.
  virtual Result<Permit> permit(const Principal& who, std::string_view signal, wire::Value payload,
                                const Judgement& judgement, const Approvals& approvals) const = 0;
  virtual std::string policy_hash() const = 0;
};

}  // namespace sallyport::mailbox

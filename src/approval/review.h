// A review: somebody other than policy looks at a request before it is acted on. A deputy or a human; both
// can only restrict, neither can skip policy.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/base.h"
#include "base/task.h"

namespace sallyport::approval {

// What is to be reviewed.
struct Matter {
  std::string container;   // who asks
  std::string request_id;  // of this container; with the payload's hash it says which matter this is
  std::string subject;     // a signal's or a method's name
  std::string payload;     // canonical JSON: the very bytes that will be acted on
  std::string rule;        // why it is reviewed
  std::string policy_hash;
  std::optional<std::string> original;  // the payload as it came, if a deputy changed it
  // Runs when a human is asked, with the question's id: so that whoever waits can be told.
  std::function<void(const std::string& question)> on_asked = {};
};

struct Verdict {
  enum class Kind : std::uint8_t { approved, rejected, modified, expired };
  Kind kind = Kind::rejected;
  std::string payload;  // of `modified`: what it shall be instead
  std::string why;      // for the requester
  std::string by;       // for the audit: "deputy/rules", "host/uid 1000"
  // Of `rejected`, where nobody has looked at it: the same for the requester's program, as an error's details.
  std::string details_json = {};
};

// Asking twice about the same matter, before or after a restart, continues the first question.
class Reviewer {
 public:
  virtual ~Reviewer() = default;
  // Never fails: whatever goes wrong is a rejection that says what went wrong.
  virtual Task<Verdict> review(Matter matter) = 0;
  // Whoever asked has its answer already, or is gone.
  virtual void withdraw(const std::string&, const std::string&) {}
};

}  // namespace sallyport::approval

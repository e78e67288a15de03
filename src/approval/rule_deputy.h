// The built-in deputy: reviews by rules, for the four requests that exist out of the box. A subject that it
// knows no review for is rejected: name an executable deputy for it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "approval/cell.h"
#include "approval/review.h"
#include "base/base.h"
#include "ipc/ipc.h"
#include "policy/profile.h"

namespace sallyport::approval {

// Who asks, as the host knows it.
struct Sender {
  policy::Profile profile;
  std::string workspace;  // absolute host path, or empty
  // That deployments come from, by name; none: the workspace.
  std::map<std::string, std::string, std::less<>> repositories;
};

// Prompt and instructions: length, forbidden phrases, characters that hide or reorder text. The error is a
// sentence for the requester.
Status review_text(std::string_view field, std::string_view text, const policy::DeputyLimits& limits);
// All that can be said without looking at a repository.
Status review_payload(std::string_view subject, wire::Value payload, const Sender& sender, std::int64_t now_ms);
// What git said about a commit: paths, each ended by NUL, and "ok" at the end if it got there.
Status review_paths(std::string_view listing, const policy::DeputyLimits& limits);

class RuleDeputy {
 public:
  RuleDeputy(ipc::Loop& loop, const Clock& clock, StartCell start_cell)
      : loop_(loop), clock_(clock), start_cell_(std::move(start_cell)) {}

  Task<Verdict> review(Matter matter, Sender sender);

 private:
  Task<Status> check(const Matter& matter, const Sender& sender);
  // In a cell, because the repository may be the requester's own work.
  Task<Status> check_commit(std::string commit, std::string repository, const Sender& sender);

  ipc::Loop& loop_;
  const Clock& clock_;
  StartCell start_cell_;
};

}  // namespace sallyport::approval

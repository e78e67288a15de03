// The states of a request in the journal, and what they mean after a crash.
//
//   accepted -> decided -> denied | ready | deputy_wait
//   deputy_wait -> rejected | approved | modified -> decided (once)
//               -> human_wait -> approved | rejected | expired
//   ready -> executing -> done | failed | unknown -> answered -> expired
//                      -> approved, where the policy changed while that was written: not begun, and reviewed again
//
// Edges between which nothing is waited for are taken in one transaction, so that a row is only ever seen in
// the states below: one that is neither reviewed nor refused is inserted as `executing`, one that is refused
// as `answered`, and its outcome and its answer are stored together.
#pragma once

namespace sallyport::mailbox::state {

inline constexpr const char* kDeputyWait = "deputy_wait";  // asked again after a crash, as the next one
inline constexpr const char* kHumanWait = "human_wait";
inline constexpr const char* kApproved = "approved";    // by one reviewer; policy is asked again
inline constexpr const char* kModified = "modified";    // by the deputy; policy is asked again
inline constexpr const char* kExecuting = "executing";  // again if idempotent, else unknown
inline constexpr const char* kUnknown = "unknown";      // a human says what came of it
inline constexpr const char* kAnswered = "answered";
inline constexpr const char* kExpired = "expired";  // the answer is gone; the id stays used

}  // namespace sallyport::mailbox::state

// Every limit of reviews, with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sallyport::approval {

// A human sees questions in the morning that were asked the evening before. Longer than this nobody remembers
// why. The configuration may say otherwise.
inline constexpr std::chrono::milliseconds kDefaultExpiry{24 * 60 * 60 * 1000};

// Before what the ledger could not take is tried again.
inline constexpr std::chrono::milliseconds kRetryAfter{500};

// What one container may have open at once: a human reads them all.
inline constexpr std::int64_t kMaxOpenPerContainer = 64;
// Questions of one container that were withdrawn: so many of the last minute, and of those that are kept. Whoever asks
// and goes, again and again, fills neither the ledger nor a human's day.
inline constexpr std::int64_t kMaxWithdrawn = 64;
inline constexpr std::chrono::milliseconds kWithdrawnCounts{60'000};
// What a question in a list has beside its payload; see wire::kPageBytes.
inline constexpr std::size_t kQuestionOverhead = 1024;
// What a human can be asked about: all of it is shown, twice and with what it was before, in one frame.
inline constexpr std::size_t kMaxReviewedBytes = 128U << 10;
// Of a text made of it, with an indentation for each level: beyond this it is shown as it is.
inline constexpr std::size_t kMaxPrettyBytes = kMaxReviewedBytes;

// Questions that are over are kept this long: so that asking again about the same matter gets the same answer.
inline constexpr std::chrono::milliseconds kKept{7 * 24 * 60 * 60 * 1000};

// An answer's reason goes to the requester and into the ledger.
inline constexpr std::int64_t kMaxWhyBytes = 1024;

// A deputy's answer: the payload once more, and a few words.
inline constexpr std::size_t kMaxVerdictBytes = 256U << 10;
// Of git's output, for the rule deputy.
inline constexpr std::size_t kMaxOutputBytes = 4U << 20;
// Deputies at work at once, and how many of them for one container: the others wait, and nobody behind those who ask
// for much.
inline constexpr std::size_t kMaxDeputies = 8;
inline constexpr std::size_t kMaxDeputiesPerContainer = 2;

// A diff of payloads beyond this many lines is not computed line by line.
inline constexpr std::size_t kMaxDiffLines = 1000;

}  // namespace sallyport::approval

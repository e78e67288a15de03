// Every limit of the mailbox, with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "ledger/rates.h"

namespace sallyport::mailbox {

// One message: a prompt with its settings fits well, a file does not belong here.
inline constexpr std::size_t kMaxMessageBytes = 64U << 10;
// Signal names are copied into logs and tables.
inline constexpr std::size_t kMaxSignalBytes = 64;

// Files that one turn of the loop looks at, about a millisecond's worth, and how many of them may belong to
// one mailbox while others wait.
inline constexpr std::size_t kFilesPerTurn = 32;
inline constexpr std::size_t kFilesPerBox = 8;
// Files of one mailbox that were read and are not yet in the ledger. Beyond it they stay where they are: the
// file system is the queue. Of all mailboxes together: a commit's worth. With a thousand more on their way every step
// of each would miss the caches, which costs more than the larger commits save.
inline constexpr std::size_t kMaxAccepting = 256;
inline constexpr std::size_t kMaxAcceptingInAll = 512;
// Names of new files that are remembered per mailbox; beyond it the directory is read instead.
inline constexpr std::size_t kMaxHints = 1024;

// What may lie in in/tmp: messages that are being written, of which a program writes one at a time. Nobody needs more,
// and whoever puts more there is after the disk: its container is stopped. On a small disk a part of it is the limit.
inline constexpr std::size_t kMaxUnsentFiles = 1024;
inline constexpr std::uint64_t kMaxUnsentBytes = 64U << 20;
inline constexpr std::uint64_t kUnsentPartOfDisk = 8;
inline constexpr int kMaxUnsentDepth = 4;

// Signals of tier 1 that a container may raise, of each kind, where neither its profile nor a rule has a rate for it:
// each costs two records.
inline constexpr ledger::Rate kSignalRate{.count = 120, .period = std::chrono::milliseconds(60'000)};

// How often every mailbox is read whether or not something was announced; more often where the kernel has
// no room for a watch.
inline constexpr std::chrono::milliseconds kRescanEvery{1000};
inline constexpr std::chrono::milliseconds kUnwatchedRescanEvery{100};

// How soon it is seen that a mailbox which shall go has nothing left to answer.
inline constexpr std::chrono::milliseconds kIdleLookEvery{20};

// Requests of one container that wait for a review: more than a human would want to look at.
inline constexpr std::size_t kMaxWaiting = 64;
// Programs of signals that one container has running on the host. What else it sends lies in its mailbox until one has
// ended; what comes over the door then is refused.
inline constexpr std::size_t kMaxRunning = 16;
// Requests of one container, ever; signals of tier 1 are none. Each leaves a tombstone, so that its id is never
// accepted twice.
inline constexpr std::int64_t kMaxRequests = 1'000'000;

// Replies that are kept for a container, and for how long. Those beyond go in steps, not one by one.
inline constexpr std::size_t kMaxReplies = 1000;
inline constexpr std::size_t kReplySlack = 128;
inline constexpr std::chrono::milliseconds kReplyLife{std::chrono::hours(24)};
inline constexpr std::chrono::milliseconds kExpireEvery{60'000};

// Refused messages of one container that are kept to look at: the newest ones. Refusals beyond the rate are
// counted, not kept and not recorded one by one: nobody can fill the disk with them.
inline constexpr std::size_t kMaxQuarantined = 64;
inline constexpr ledger::Rate kRefusalRate{.count = 600, .period = std::chrono::milliseconds(60'000)};

// Before what the ledger could not take is tried again.
inline constexpr std::chrono::milliseconds kRetryAfter{500};

}  // namespace sallyport::mailbox

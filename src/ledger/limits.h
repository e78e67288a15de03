// Every limit of the ledger, with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sallyport::ledger {

// How long a buffered record may wait for company: what a kill -9 can lose, and one fsync in exchange.
inline constexpr std::chrono::milliseconds kBufferedDelay{50};

// A group commit takes at most this many items, so that the first of a long queue is not kept waiting
// for the last.
inline constexpr std::size_t kMaxGroup = 4096;

// Completions whose own submissions are held back to be written together: a millisecond's worth.
inline constexpr std::size_t kTogether = 32;

// What may wait in memory while the disk cannot be written, and the payload bytes at which a group is
// written early. Beyond the first nothing more is accepted: what cannot be recorded is not done.
inline constexpr std::size_t kMaxBacklog = 16'384;
inline constexpr std::size_t kEarlyPayloadBytes = 1U << 20;
// Payloads that wait to be hashed by the writer; beyond that whoever submits one hashes it, and only the hash waits.
inline constexpr std::size_t kMaxPayloadBytes = 16U << 20;

// How long to wait before what could not be written is tried again without being asked.
inline constexpr std::chrono::milliseconds kRetryDelay{250};

// Of the write-ahead log, before it is given to the kernel: all of a small commit in one call.
inline constexpr std::size_t kMaxGatheredBytes = 32U << 10;

// Kept back on the disk for what stops things and for a warden's last words: a write-ahead log at its longest fits.
inline constexpr std::uint64_t kReserveBytes = 4U << 20;

// Names in a record are for filters and for people; what is longer is cut.
inline constexpr std::size_t kMaxFieldBytes = 256;

// A signed checkpoint after every so many records: without the key nothing older can be rewritten. At
// 50 us a signature that is 50 ns a record.
inline constexpr std::uint64_t kCheckpointEvery = 1024;

// Exported files are rotated at this size, and are known to be on the disk after this long.
inline constexpr std::uint64_t kExportFileBytes = 16U << 20;
inline constexpr std::chrono::milliseconds kExportSyncDelay{1000};
// One line of an exported file: every field at its longest, escaped, fits well.
inline constexpr std::size_t kMaxLineBytes = 32U << 10;

// The write-ahead log is folded into the database beyond this many pages, after the answers are out.
inline constexpr int kFoldAfterPages = 1000;

// One page of a query: what it returns, and what it looks at before it hands back a cursor, so that the
// writer thread is never kept from its commits for long.
inline constexpr std::int64_t kMaxQueryRecords = 1000;
inline constexpr std::int64_t kMaxQueryScan = 20'000;
// Of JSON, roughly: a page must fit into one frame.
inline constexpr std::size_t kMaxPageBytes = 512U << 10;
// The same for one step of a verification.
inline constexpr std::int64_t kVerifyStep = 2'000;
// Findings that are listed; beyond them the rest is only counted.
inline constexpr std::size_t kMaxFindings = 100;

// Rates of this period and longer survive a restart.
inline constexpr std::chrono::milliseconds kPersistedPeriod{60'000};

}  // namespace sallyport::ledger

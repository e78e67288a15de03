// Every limit of the platform, with its reason.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "wire/limits.h"

namespace sallyport::platform {

// What worker and host must agree on. Another number is refused, not warned about.
inline constexpr int kProtocolVersion = 1;

// A value up to this size that is text travels inside its message; a larger or binary one as a stream.
inline constexpr std::size_t kInlineBytes = 64U << 10;

// Names become parts of paths, keys of databases and lines of logs.
inline constexpr std::int64_t kMaxNameBytes = 64;
inline constexpr std::int64_t kMaxKeyBytes = 160;  // percent-encoded and with a tenant in front it still is a file name
inline constexpr std::int64_t kMaxTopicBytes = 128;

// What one value may hold at all, whatever a profile says: it passes through memory on its way to a backend.
inline constexpr std::size_t kMaxValueBytes = 64U << 20;
// Files are written as they come; only the disk bounds them, and the quota.
inline constexpr std::int64_t kMaxObjectBytes = std::int64_t{1} << 34;
// What an object or a vector counts for beside its name and content: an inode of ext4, or a row with its index. Without
// it a quota would allow any number of empty ones.
inline constexpr std::int64_t kObjectCost = 256;

inline constexpr std::int64_t kMaxVectorsPerCall = 10'000;
inline constexpr std::int64_t kMaxDimensions = 16'384;
inline constexpr std::int64_t kMaxTopK = 1'000;
// With which a filter compares every vector's metadata, while all other tenants wait.
inline constexpr std::size_t kMaxFilterValues = 1'000;
inline constexpr std::int64_t kMaxListed = 1'000;
inline constexpr std::int64_t kMaxTexts = 2'048;
inline constexpr std::int64_t kMaxLogBytes = 16U << 10;
inline constexpr std::int64_t kMaxTtlMs = std::int64_t{400} * 24 * 60 * 60 * 1000;

// One tenant's calls between warden and adapters, so that none can take the link for itself.
inline constexpr std::size_t kMaxCallsPerTenant = 256;
inline constexpr std::size_t kMaxBytesPerTenant = 16U << 20;
inline constexpr std::size_t kMaxStreamsPerTenant = 16;
// Of those, what waits for the thread that does files or SQLite for all: more than the streams that it may be sending,
// and little enough that others do not wait for long behind it.
inline constexpr std::size_t kMaxTurnsPerTenant = kMaxStreamsPerTenant + 8;
// Its requests to models over HTTP at once; more wait. The connections are enough for sixteen that take all of theirs.
inline constexpr std::size_t kMaxTransfersPerTenant = 16;
// The link itself: room for hundreds of such tenants.
inline constexpr std::size_t kLinkCalls = 65'536;
inline constexpr std::size_t kLinkCallBytes = std::size_t{1} << 30;
inline constexpr std::size_t kLinkStreams = 8'192;

// Events wait on the link while less than this does; beyond it, publishing is refused and what came from elsewhere is
// lost to who listens. Answers to other tenants are behind no more than this.
inline constexpr std::size_t kMaxUnsentEvents = 16U << 20;
// A payload as JSON: with whom it is for (kMaxCallsPerTenant of them) and its topic it still fits a frame.
inline constexpr std::size_t kMaxEventBytes = wire::kMaxFrameBytes - (16U << 10);

// What waits to be sent to Redis, of all tenants: one of the largest values, and room for commands without one.
inline constexpr std::size_t kMaxUnsentToRedis = kMaxValueBytes + (1U << 20);
// What it may answer with: one of the largest values, or a page of keys, which are hundreds.
inline constexpr std::size_t kMaxRedisReplyBytes = kMaxValueBytes + (1U << 20);
inline constexpr std::size_t kMaxRedisReplyItems = 65'536;

// How long a backend may take to say that it is there, and how often one that was not is asked again.
inline constexpr std::chrono::milliseconds kProbeTimeout{2'000};
inline constexpr std::chrono::milliseconds kProbeAgain{2'000};

}  // namespace sallyport::platform

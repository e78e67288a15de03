// The proxy's own limits: what one connection may cost before it is allowed anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace sallyport::egress {

inline constexpr std::size_t kMaxHeadBytes = 16U << 10;          // of a request; servers commonly take 8 KiB
inline constexpr std::size_t kMaxResponseHeadBytes = 64U << 10;  // cookies of generous servers
inline constexpr std::size_t kMaxHeaders = 100;
inline constexpr std::size_t kMaxClientHelloBytes = 5 + (16U << 10);  // one TLS record

// A request's head or a TLS greeting must be complete by then, however slowly it comes.
inline constexpr Millis kHeadTimeout{10'000};
inline constexpr Millis kResolveTimeout{10'000};
inline constexpr Millis kDialTimeout{15'000};
// When the next address is tried beside one that has not answered.
inline constexpr Millis kDialStagger{250};
inline constexpr std::size_t kMaxAddresses = 8;

inline constexpr std::size_t kResolverThreads = 4;
inline constexpr std::size_t kMaxLookups = 256;  // waiting for a thread

inline constexpr Millis kSweepEvery{100};
// Beyond the tunnels that a container may have: connections that are still asking.
inline constexpr std::size_t kMaxAsking = 64;

inline constexpr std::size_t kScratchBytes = 256U << 10;  // one for all connections
inline constexpr std::size_t kPipeBytes = 1U << 20;
inline constexpr std::size_t kSparePipes = 8;

// Refusals that are reported one by one; a flood is counted.
inline constexpr std::size_t kRefusalBurst = 100;
inline constexpr Millis kRefusalEvery{100};

inline constexpr std::size_t kMaxHostsCounted = 1024;  // per container; the rest is counted as one

}  // namespace sallyport::egress

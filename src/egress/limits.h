// The proxy's own limits: what one connection may cost before it is allowed anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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

// A thread that asks a silent name server is lost for as long as that takes. One container can lose four, and it takes
// sixteen of them to make others wait; a thread that sleeps costs a few pages.
inline constexpr std::size_t kResolverThreads = 64;
inline constexpr std::size_t kResolverThreadsEach = 4;
inline constexpr std::size_t kMaxLookupsEach = 64;  // of one container, waited for at once
// What the machine's resolver is told, unless it is told otherwise: the usual 5 s and 2 attempts are more than
// kResolveTimeout, and what nobody waits for any more should not hold a thread.
inline constexpr const char* kResolverOptions = "timeout:2 attempts:2";

inline constexpr Millis kSweepEvery{100};
// Beyond the tunnels that a container may have: connections that are still asking.
inline constexpr std::size_t kMaxAsking = 64;
// Of the descriptors that the process may have: what is not for connections, and what one connection needs.
inline constexpr std::size_t kOwnDescriptors = 64;
inline constexpr std::size_t kDescriptorsEach = 2;
// What a container may always have open, however many others there are and whatever they have.
inline constexpr std::size_t kLeastShare = 16;

// One for all connections to copy through: several segments of the loopback at once. One that finds its receiver full
// goes on with less, but no less than this.
inline constexpr std::size_t kBlockBytes = 1U << 20, kLeastBlockBytes = 64U << 10;
inline constexpr std::size_t kBodyBytes = 256U << 10;  // of an answer: they wait in the proxy for a slow client

// Refusals that are reported one by one; those of a flood are counted, each with its like, and told at this rate.
inline constexpr std::size_t kRefusalBurst = 100;
inline constexpr Millis kRefusalEvery{100};

inline constexpr std::size_t kMaxHostsCounted = 1024;  // per container; the rest is counted as one
inline constexpr std::string_view kOtherHosts = "(others)";
inline constexpr std::size_t kMaxReasons = 4;  // that are kept per host

// Reports that wait for the one that started the proxy to read; beyond them they are counted.
inline constexpr std::size_t kMaxReports = 16'384;
// Orders that wait for the proxy to read: one that takes none for so long is replaced, because it must not go on with
// rules that are others by now.
inline constexpr Millis kOrderPatience{5'000};
inline constexpr Millis kOrderRetry{10};
inline constexpr Millis kLastReports{2000};  // how long the last ones may take to leave

}  // namespace sallyport::egress

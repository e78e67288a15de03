// Somebody who can do the calls of the benchmark: a server process and the client's side of it here.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "process.h"
#include "stats.h"

namespace sallyport::bench {

inline constexpr std::size_t kMegabyte = 1'000'000;
inline constexpr std::size_t kWindow = 64;  // calls in flight, and connections

using Call = std::function<void()>;

// Times each of `calls` calls, and the CPU that this process and the server used for all of them.
Measurement measure_each(const Process& server, int calls, const Call& call);
// For calls that overlap: `batch` does them all; only the rate and the CPU are known.
Measurement measure_batch(const Process& server, int calls, const Call& batch);

}  // namespace sallyport::bench

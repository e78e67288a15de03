// What the connections of one principal take of the loop together, so that many of them get no more than one would.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_set>

namespace sallyport::ipc {

class Session;

struct Account {
  // Answers that wait for their readers. From `most_unsent` on, no session of the account is read.
  std::size_t most_unsent = SIZE_MAX;
  std::size_t unsent = 0;
  std::unordered_set<Session*> waiting = {};  // until there is less

  // Streams that came with requests and are not used up. Each may hold all of its first credit, also after its end; a
  // request that names one too many is refused.
  std::size_t most_streams = SIZE_MAX;
  std::size_t streams = 0;

  // Time spent on what arrived, in one turn of the loop. Beyond kMaxTurnTime the others have theirs first.
  std::uint64_t turn = 0;
  std::chrono::nanoseconds spent{0};
  std::deque<Session*> queue = {};  // for time: whoever had some waits behind those who had none yet
};

// Longer than a turn of well-behaved connections; short enough that nobody notices to have waited for it.
inline constexpr std::chrono::milliseconds kMaxTurnTime{2};

}  // namespace sallyport::ipc

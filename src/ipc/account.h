// What the connections of one principal take of the loop together, so that many of them get no more than one would.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_set>

#include "ipc/oneshot.h"

namespace sallyport::ipc {

class Call;
class Loop;
class Session;

struct Account {
  // Answers that wait for their readers. From `most_unsent` on, no session of the account is read and no stream sent.
  std::size_t most_unsent = SIZE_MAX;
  std::size_t unsent = 0;
  std::unordered_set<Session*> waiting = {};  // to read, until there is less
  std::unordered_set<Session*> clogged = {};  // with streams to send then
  bool is_full() const { return unsent >= most_unsent; }
  // What events of all sessions may take of it, and answers to come of any one: a connection that is not read leaves
  // the others something.
  std::size_t share() const { return most_unsent / 4; }

  // Answers still to come from others, who are asked only while there is room for them too (see Call::await_room).
  std::size_t promised = 0;
  struct Asking {
    Call* call;
    std::size_t bytes;
    std::shared_ptr<OneShot<bool>> has_room;  // false: the call is given up
  };
  std::list<Asking> asking = {};  // in the order in which they get it
  bool has_room_for(std::size_t bytes) const { return unsent + promised + bytes <= most_unsent; }
  void give_room(Loop& loop);

  // What has come of requests that wait or are not complete, and what the rest of a large one will take. Read on is
  // only while there is room for that.
  std::size_t most_unread = SIZE_MAX;
  std::size_t unread = 0;

  // Streams that came with requests and are not used up, or that go out and have not ended. Each may hold all of its
  // first credit, also after its end; one too many is refused.
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

// Bytes from one socket to another.
#pragma once

#include <functional>
#include <string_view>

#include "base/base.h"
#include "ipc/loop.h"

namespace sallyport::egress {

// Asked before bytes move, told after they have.
struct Meter {
  std::function<std::size_t(std::size_t)> allow;  // how many of so many may; none ends the relay
  std::function<void(std::size_t)> count;
};

// Moves bytes until `from` ends (true), or until an error, a cancelled Watch or the meter ends it (false). All relays
// copy through the same block: one that waits holds no memory, what it waits with stays where it came from.
Task<bool> relay(ipc::Watch& from, ipc::Watch& to, Bytes& block, const Meter& meter);
// False if the other side is gone or the Watch was cancelled.
Task<bool> send_all(ipc::Watch& to, std::string_view bytes);

}  // namespace sallyport::egress

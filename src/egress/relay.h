// Bytes from one socket to another.
#pragma once

#include <functional>
#include <string_view>

#include "base/base.h"
#include "ipc/loop.h"

namespace sallyport::egress {

// Told how many bytes are about to move; false ends the relay.
using Meter = std::function<bool(std::size_t)>;

// Moves bytes until `from` ends (true), or until an error, a cancelled Watch or the meter ends it (false). All relays
// copy through the same block: one that waits holds no memory, what it waits with stays where it came from.
Task<bool> relay(ipc::Watch& from, ipc::Watch& to, Bytes& block, const Meter& meter);
// False if the other side is gone or the Watch was cancelled.
Task<bool> send_all(ipc::Watch& to, std::string_view bytes);

}  // namespace sallyport::egress

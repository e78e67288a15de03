// Bytes from one socket to another.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "ipc/loop.h"

namespace sallyport::egress {

// What relays share, so that a connection that waits holds no buffer: one block to copy through, and a few pipes for
// those that move much.
class RelayMemory {
 public:
  RelayMemory();

  std::vector<char>& block() { return block_; }

  struct Pipe {
    UniqueFd out, in;
  };
  Pipe take_pipe();  // without descriptors if none can be had
  void give_pipe(Pipe pipe);
  void drop_pipe(Pipe pipe);  // it may still hold something
  void set_most_pipes(std::size_t most) { most_pipes_ = most; }

 private:
  std::vector<char> block_;
  std::vector<Pipe> spares_;
  std::size_t most_pipes_ = SIZE_MAX, pipes_ = 0;  // descriptors are for connections first
};

// Told how many bytes moved; false ends the relay.
using Meter = std::function<bool(std::size_t)>;

// Moves bytes until `from` ends (true), or until an error, a cancelled Watch or the meter ends it (false).
Task<bool> relay(ipc::Watch& from, ipc::Watch& to, RelayMemory& memory, const Meter& meter);
// False if the other side is gone or the Watch was cancelled.
Task<bool> send_all(ipc::Watch& to, std::string_view bytes);

}  // namespace sallyport::egress

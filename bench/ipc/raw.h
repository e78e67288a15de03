// The limit: the same bytes over the same kind of socket, no JSON, no frames, no decisions.
#pragma once

#include <string>
#include <vector>

#include "contender.h"

namespace sallyport::bench {

enum class Family { unix_socket, tcp };

// A server that answers every `request` bytes with `reply` bytes, all that came in one read with one
// write. One connection: blocking calls; several: one epoll loop.
class Raw {
 public:
  Raw(Family family, std::size_t connections, std::size_t request, std::size_t reply, int cpu);

  const Process& server() const { return server_; }
  void call() { exchange(1); }
  // Keeps kWindow calls in flight; every read's worth of answers is followed by as many requests.
  void pipeline(int calls);
  // One call in flight on every connection.
  void fan_out(int calls);

 private:
  void exchange(std::size_t count);

  std::size_t request_, reply_;
  std::vector<UniqueFd> ours_;
  Process server_;
  std::string out_, in_;
};

}  // namespace sallyport::bench

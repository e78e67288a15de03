// The gate of a loopback TCP door: a peer is nobody until it has proven that it holds the token.
//
// At most kMaxHandshakesWaiting connections wait at once (of the older half one that has said nothing gives way, else
// the oldest), each for at most `timeout` in all, and one that fails is kept waiting before it is closed. Whatever
// strangers do, and however many they are, nothing is allocated: all that they can use is made with the gate.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "ipc/sessions.h"
#include "wire/wire.h"

namespace sallyport::ipc {

class LoopbackGate {
 public:
  using Admitted = std::function<void(UniqueFd)>;
  LoopbackGate(Sessions& shared, const wire::Token& token, const wire::Binding& binding, Admitted admitted,
               Millis timeout = wire::kHandshakeTimeout);
  ~LoopbackGate();
  LoopbackGate(const LoopbackGate&) = delete;
  LoopbackGate& operator=(const LoopbackGate&) = delete;

  // `admitted` is called with the connection once it has proven itself; nothing behind the proof has been read.
  void admit(UniqueFd connection);

 private:
  struct Place;
  Fire serve(Place& place);
  void receive(Place& place);
  void make_room();
  void count_refusal(std::string_view why);
  void refuse(Place& place, std::string_view why);
  void close(Place& place, std::string_view why);
  void leave(Place& place);
  void plan();
  void close_what_is_due();

  Sessions& shared_;
  Admitted admitted_;
  Millis timeout_;
  std::vector<std::unique_ptr<Place>> places_;  // those in use first, in the order in which they came
  std::size_t waiting_ = 0;
  Bytes answer_;
  Loop::TimerId timer_ = 0;
};

}  // namespace sallyport::ipc

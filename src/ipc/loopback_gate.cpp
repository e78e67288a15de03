#include "ipc/loopback_gate.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

namespace sallyport::ipc {
namespace {

constexpr Millis kFailureDelay{500};
// The larger of the two frames that a client sends.
constexpr std::size_t kLargestBody = std::max(wire::kHelloBytes, wire::kProofBytes);

}  // namespace

// Where one connection waits.
struct LoopbackGate::Place {
  Watch watch;       // of the connection, while it may speak
  UniqueFd refused;  // or the connection itself, when it may not
  wire::HandshakeServer server;
  std::array<std::uint8_t, wire::kHeaderBytes + kLargestBody> frame{};
  std::size_t have = 0;
  SteadyTime until{};

  Place(Loop& loop, const wire::Token& token, const wire::Binding& binding)
      : watch(loop), server(token, binding, wire::Nonce{}) {}
};

LoopbackGate::LoopbackGate(Sessions& shared, const wire::Token& token, const wire::Binding& binding, Admitted admitted,
                           Millis timeout)
    : shared_(shared), admitted_(std::move(admitted)), timeout_(timeout) {
  answer_.reserve(wire::kHeaderBytes + wire::kChallengeBytes);
  for (std::size_t i = 0; i < wire::kMaxHandshakesWaiting; ++i) {
    places_.push_back(std::make_unique<Place>(shared_.loop(), token, binding));
    serve(*places_.back());
  }
}

LoopbackGate::~LoopbackGate() { shared_.loop().cancel(timer_); }

// Ends with the gate, of which it then touches nothing.
Fire LoopbackGate::serve(Place& place) {
  for (;;) {
    const bool is_ready = co_await place.watch.readable();
    if (!is_ready) co_return;
    receive(place);
  }
}

void LoopbackGate::admit(UniqueFd connection) {
  if (waiting_ == places_.size()) make_room();
  Place& place = *places_[waiting_];
  if (!place.watch.take(std::move(connection))) return count_refusal("it cannot be waited for");
  ++waiting_;
  wire::Nonce nonce;
  fill_random(nonce);
  place.server.restart(nonce);
  place.have = 0;
  place.until = std::chrono::steady_clock::now() + timeout_;
  plan();
}

// Of the older half one that only connected, else the oldest: whoever has just come may still be about to speak.
void LoopbackGate::make_room() {
  const auto half = places_.begin() + static_cast<std::ptrdiff_t>(places_.size() / 2);
  const auto silent =
      std::find_if(places_.begin(), half, [](const auto& place) { return !place->server.is_greeted(); });
  close(silent != half ? **silent : *places_.front(), "gave way to a newer one");
}

void LoopbackGate::receive(Place& place) {
  // Never more than the frame at hand: what follows the proof belongs to the session.
  std::size_t want = wire::kHeaderBytes;
  if (place.have >= wire::kHeaderBytes) want += wire::load_be32(place.frame.data());
  const ssize_t count = ::recv(place.watch.fd(), place.frame.data() + place.have, want - place.have, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return refuse(place, "connection ended during the handshake");
  place.have += static_cast<std::size_t>(count);
  if (place.have < wire::kHeaderBytes) return;
  const std::size_t length = wire::load_be32(place.frame.data());
  if (length == 0 || length > kLargestBody) return refuse(place, "not a handshake frame");
  if (place.have < wire::kHeaderBytes + length) return;
  place.have = 0;
  answer_.clear();
  if (!place.server.receive({place.frame.data() + wire::kHeaderBytes, length}, answer_)) {
    return refuse(place, place.server.why_refused());
  }
  if (!answer_.empty() && ::send(place.watch.fd(), answer_.data(), answer_.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
                              static_cast<ssize_t>(answer_.size())) {
    return refuse(place, "connection ended during the handshake");
  }
  if (!place.server.is_done()) return;
  UniqueFd proven = place.watch.release();
  leave(place);
  admitted_(std::move(proven));
}

void LoopbackGate::count_refusal(std::string_view why) {
  ++shared_.counters().refused;
  shared_.log_about("loopback", LogLevel::warn, "loopback connection refused", {{"error", why}});
}

// Whoever guesses must not guess quickly.
void LoopbackGate::refuse(Place& place, std::string_view why) {
  count_refusal(why);
  place.refused = place.watch.release();
  place.until = std::min(place.until, std::chrono::steady_clock::now() + kFailureDelay);
  plan();
}

void LoopbackGate::leave(Place& place) {
  const auto at = std::find_if(places_.begin(), places_.end(), [&](const auto& each) { return each.get() == &place; });
  place.watch.release();
  place.refused.reset();
  std::rotate(at, at + 1, places_.end());
  --waiting_;
}

void LoopbackGate::close(Place& place, std::string_view why) {
  if (!place.refused) count_refusal(why);
  leave(place);
}

void LoopbackGate::plan() {
  shared_.loop().cancel(timer_);
  const auto end = places_.begin() + static_cast<std::ptrdiff_t>(waiting_);
  const auto first =
      std::min_element(places_.begin(), end, [](const auto& a, const auto& b) { return a->until < b->until; });
  if (first == end) return;
  const auto left = std::chrono::ceil<Millis>((*first)->until - std::chrono::steady_clock::now());
  timer_ = shared_.loop().after(std::max(left, Millis(0)), [this] { close_what_is_due(); });
}

void LoopbackGate::close_what_is_due() {
  const SteadyTime now = std::chrono::steady_clock::now();
  for (std::size_t i = waiting_; i-- > 0;) {
    Place& place = *places_[i];
    if (place.until <= now) close(place, "no proof came in time");
  }
  plan();
}

}  // namespace sallyport::ipc

// What all sessions of one loop share: the parser, spare buffers, counters, limits, and the list of
// those that are open.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/base.h"
#include "ipc/loop.h"
#include "wire/wire.h"

namespace sallyport::ipc {

class Session;

struct SessionLimits {
  Millis idle_timeout{10 * 60 * 1000};  // no request in flight and nothing received
  Millis frame_timeout{30 * 1000};      // a frame, once begun, must be complete by then
};

struct Counters {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;  // before a session existed: identity, limits
  std::uint64_t requests = 0;
  std::uint64_t malformed = 0;            // bodies that were no message, stray chunks and responses
  std::uint64_t protocol_closes = 0;      // connections we closed for what they sent
  std::uint64_t descriptors_dropped = 0;  // reads that carried descriptors nobody asked for
  std::uint64_t idle_closes = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t accept_failures = 0;  // out of descriptors or memory
};

class Sessions {
 public:
  Sessions(Loop& loop, const Log& log, SessionLimits limits) : loop_(loop), log_(log), limits_(limits) {}
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  Loop& loop() { return loop_; }
  const Log& log() const { return log_; }
  wire::Decoder& decoder() { return decoder_; }
  Counters& counters() { return counters_; }
  const SessionLimits& limits() const { return limits_; }
  void set_limits(SessionLimits limits) { limits_ = limits; }

  // A line about something that others may cause as often as they like. Each source, a door or a principal, has a
  // budget of its own; what it does not cover is counted and told later. Whether it was written.
  bool log_about(std::string_view source, LogLevel level, std::string_view event, Log::Fields fields);

  std::size_t open_count() const { return open_.size(); }
  std::size_t in_flight() const { return in_flight_; }
  void for_each(const std::function<void(Session&)>& visit);
  // Calls `done` once no session is left: at once, or when the last one goes.
  void when_empty(std::function<void()> done);

  Bytes take_buffer() {
    if (spares_.empty()) return {};
    Bytes buffer = std::move(spares_.back());
    spares_.pop_back();
    buffer.clear();
    return buffer;
  }
  void give_buffer(Bytes buffer) {
    if (buffer.capacity() != 0 && spares_.size() < kSpareBuffers) spares_.push_back(std::move(buffer));
  }

 private:
  friend class Session;
  friend class Call;
  // Enough for the connections that are busy in one turn of the loop.
  static constexpr std::size_t kSpareBuffers = 8;
  void add(Session& session);
  void remove(Session& session);
  void sweep();  // closes what was idle for too long, and gives memory back when all is quiet
  void plan_sweep();
  void tell_left_out(const std::string& source, std::uint64_t count) const;

  Loop& loop_;
  const Log& log_;
  SessionLimits limits_;
  wire::Decoder decoder_;
  Counters counters_;
  std::vector<Bytes> spares_;
  std::unordered_set<Session*> open_;
  std::map<std::string, LineBudget, std::less<>> line_budgets_;  // of sources that used some of theirs
  std::size_t in_flight_ = 0;
  std::uint64_t requests_at_last_sweep_ = 0;
  Loop::TimerId sweep_timer_ = 0;
  std::function<void()> when_empty_;
};

}  // namespace sallyport::ipc

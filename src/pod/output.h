// One client's view of a pod's output: what it has been sent, how fast it reads, and what it misses.
//
// Bytes go out as the client's credit allows, from the screen's memory, which is the only copy. Nobody is
// waited for. A client that cannot keep up is told of a gap, on a new stream that begins with a repaint; the
// old stream ends where the gap begins, so the order is plain even through a relay.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/base.h"
#include "ipc/ipc.h"
#include "pod/screen.h"

namespace sallyport::pod {

// A controller types and sets the size; a viewer watches; a log reader wants every byte it can get, late
// rather than never.
enum class Role : std::uint8_t { control, view, log };
std::string_view to_string(Role role);

class Output {
 public:
  // Events carry the id of the request that asked for the output.
  Output(const Screen& screen, std::shared_ptr<ipc::Session> session, std::string id, Role role,
         std::shared_ptr<ipc::OutStream> stream, std::uint64_t from);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();

  ipc::Session& session() { return *session_; }
  Role role() const { return role_; }
  void set_role(Role role) { role_ = role; }
  std::uint64_t gaps() const { return gaps_; }

  // Sends what there is and what fits.
  void push();
  // Its client typed an interrupt: what is on the way to it is old news, and must not stand before the answer. It is
  // told of a gap at once, and that it may drop what it has not shown.
  void interrupt();
  bool has_backlog() const;  // enough for a person to notice
  // There will be no more output from `end` on: once the client has it all, the stream ends and `done` runs.
  void finish_at(std::uint64_t end, std::function<void()> done);
  void on_gap(std::function<void()> work) { on_gap_ = std::move(work); }
  // The stream is over and it was not us who ended it: its client has reset it, or the session went.
  void on_loss(std::function<void()> work) { on_loss_ = std::move(work); }
  void send_event(std::string_view method, std::string_view params) { session_->send_event(id_, method, params); }
  void send_latest(std::string_view method, std::string params) {
    session_->send_latest(id_, method, std::move(params));
  }
  bool is_over() const { return is_over_; }
  void stop();  // no more of it; a stream that has not ended is reset
  // What its client types, as long as that is read.
  void set_input(std::weak_ptr<ipc::InStream> input) { input_ = std::move(input); }
  void refuse_input(const Error& error);

 private:
  void watch(std::shared_ptr<ipc::OutStream> stream);
  void granted();
  void lose();
  std::size_t in_flight() const { return wire::kPodWindow.credit - stream_->sendable(); }
  bool is_too_slow() const;
  bool skip();
  void go_on_from(std::uint64_t offset, bool is_interrupted);

  const Screen& screen_;
  std::shared_ptr<ipc::Session> session_;
  std::string id_;
  Role role_;
  std::shared_ptr<ipc::OutStream> stream_;
  std::uint64_t cursor_;
  std::optional<std::uint64_t> last_;
  std::function<void()> done_, on_gap_, on_loss_;
  std::weak_ptr<ipc::InStream> input_;
  std::size_t sendable_ = 0;     // after the last send: what is more now was granted since
  SteadyTime busy_since_;        // since when something is on its way and not used up
  double bytes_per_second_ = 0;  // what the client has shown; 0: nothing yet
  std::uint64_t gaps_ = 0;
  bool is_behind_ = false;
  bool is_over_ = false;
};

}  // namespace sallyport::pod

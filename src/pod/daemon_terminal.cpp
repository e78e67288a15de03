// The daemon's terminal: reading it always, sharing it with whoever is attached.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "pod/daemon.h"
#include "pod/limits.h"
#include "pod/methods.h"

namespace sallyport::pod {
namespace {

constexpr Millis kReopenPause{20};
constexpr Millis kFullInputPause{5};
// The kernel hands out a terminal's output in pieces of at most this much; less means that there is no more.
constexpr std::size_t kKernelPiece = 2048;

}  // namespace

// ---- output ----

Fire Daemon::read_terminal() {
  while (!is_drained_) {
    const bool is_ready = co_await master_->readable();
    if (!is_ready || is_drained_) break;
    is_terminal_closed_ = !pump();
    if (!is_terminal_closed_) continue;
    if (wait_status_) {
      is_drained_ = true;
      maybe_drained();
      break;
    }
    // It closed its terminal, and may open it again.
    co_await loop_.sleep(kReopenPause);
  }
}

bool Daemon::pump() {
  std::size_t got = 0;
  bool is_open = true;
  std::size_t piece = 0;
  while (got < kReadBytes) {
    const ssize_t count = ::read(master_->fd(), buffer_.get() + got, kReadBytes - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      is_open = false;
      break;
    }
    piece = static_cast<std::size_t>(count);
    got += piece;
    if (piece < kKernelPiece) break;
  }
  if (got == 0) return is_open;
  const ByteView bytes{buffer_.get(), got};
  screen_.feed(bytes);
  if (is_attended()) {
    queries_.reset();
  } else {
    Bytes answers;
    queries_.feed(bytes, answers);
    // An agent that does not read its answers gets no more of them.
    if (!answers.empty() && input_.empty()) type(answers.view());
  }
  held_ += got;
  const SteadyTime now = last_activity_ = std::chrono::steady_clock::now();
  const bool is_flood = got >= kFloodPieceBytes && held_ < kHoldBytes && is_open && !wait_status_;
  if (is_flood && now - last_push_ < kHoldTime) {
    if (hold_timer_ == 0) {
      hold_timer_ = loop_.after(kHoldTime, [this] {
        hold_timer_ = 0;
        if (held_ > 0) push_all();
      });
    }
  } else {
    push_all();
  }
  return is_open;
}

void Daemon::push_all() {
  held_ = 0;
  if (outputs_.empty()) return;
  last_push_ = std::chrono::steady_clock::now();
  // By number: a client that is found to be gone leaves the list.
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputPtr output = outputs_[i];
    output->push();
    if (i >= outputs_.size() || outputs_[i] != output) --i;
  }
}

// ---- input ----

void Daemon::type(ByteView bytes) {
  if (is_drained_) return;
  last_activity_ = std::chrono::steady_clock::now();
  if (input_.empty()) {
    const ssize_t count = ::write(master_->fd(), bytes.data(), bytes.size());
    bytes = bytes.subspan(count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  if (bytes.empty()) return;
  input_.append(bytes);
  if (!is_draining_input_) drain_input();
}

Fire Daemon::drain_input() {
  is_draining_input_ = true;
  while (!input_.empty() && !is_drained_) {
    const bool is_ready = co_await master_->writable();
    if (!is_ready) break;
    const ssize_t count = ::write(master_->fd(), input_.data(), input_.size());
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      if (wait_status_) break;
      co_await loop_.sleep(kReopenPause);
    }
    if (count > 0) input_.erase_front(static_cast<std::size_t>(count));
  }
  input_.release();
  is_draining_input_ = false;
}

// Credit is granted as input is taken, so a client that pastes more than the agent reads waits, and only it.
Fire Daemon::read_input(OutputPtr output, std::shared_ptr<ipc::InStream> input) {
  output->set_input(input);
  for (;;) {
    auto typed = co_await input->read();
    if (!typed || typed->empty()) break;
    // Others may have left as much: each of them had credit of its own.
    while (input_.size() >= kMaxUnreadInput && controller_ == output && !is_drained_) {
      co_await loop_.sleep(kFullInputPause);
    }
    if (controller_ == output) {
      const bool interrupts = output->has_backlog() && are_interrupting(master_->fd(), typed->view());
      type(typed->view());
      if (interrupts) output->interrupt();
    }
    while (!input_.empty() && controller_ == output && !is_drained_) {
      co_await loop_.sleep(kFullInputPause);
    }
  }
  detach(*output);
}

// ---- size ----

void Daemon::resize(const Size& size) {
  if (size == size_ && !is_nudging_) return;
  size_ = size;
  set_size(master_->fd(), size_);
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object();
    write_size(json, size_);
    json.end_object();
  });
  // A viewer that turns out to be gone is taken off the list.
  const std::vector<OutputPtr> outputs(outputs_.begin(), outputs_.end());
  for (const OutputPtr& output : outputs) {
    if (output->role() == Role::view) output->send_latest("pod.size", params);
  }
}

// Programs that draw their whole screen do so again when its size changes, and back.
Fire Daemon::nudge() {
  if (is_nudging_ || wait_status_) co_return;
  is_nudging_ = true;
  const auto since = std::chrono::floor<Millis>(std::chrono::steady_clock::now() - last_nudge_);
  // Later, not never: whoever came in between has only the raw bytes so far.
  if (since < kNudgeInterval) co_await loop_.sleep(kNudgeInterval - since);
  last_nudge_ = std::chrono::steady_clock::now();
  if (!is_drained_) set_size(master_->fd(), {size_.rows, size_.columns > 1 ? size_.columns - 1 : size_.columns + 1});
  co_await loop_.sleep(kNudgePause);
  is_nudging_ = false;
  if (!is_drained_) set_size(master_->fd(), size_);
}

// ---- clients ----

void Daemon::attach(OutputPtr output) {
  // Gone before its answer reached it: nobody would ever take it off the list.
  if (output->session().is_closed()) {
    if (controller_ == output) set_controller(nullptr);
    return;
  }
  output->session().set_never_idle(true);
  outputs_.push_back(output);
  output->on_loss([this, weak = std::weak_ptr<Output>(output)] {
    // Not now: whoever noticed it is still at it.
    loop_.post([this, weak] {
      if (const OutputPtr lost = weak.lock()) detach(*lost);
      end_if_done();
    });
  });
  if (output->role() != Role::log) {
    output->on_gap([this] { nudge(); });
    nudge();
  }
  if (record_.wait_status) return tell_exit(output);
  output->push();
}

void Daemon::detach(const Output& output) {
  const auto found =
      std::find_if(outputs_.begin(), outputs_.end(), [&](const OutputPtr& each) { return each.get() == &output; });
  if (found == outputs_.end()) return;
  const OutputPtr gone = std::move(*found);
  outputs_.erase(found);
  if (controller_ == gone) set_controller(nullptr);
  gone->stop();
  gone->refuse_input(Error::make(Code::cancelled, "detached: nobody reads this any more"));
  // After the report of it. Until then it lives: it may be its own sending that found its client gone.
  loop_.post([this, gone] { stop_if_all_is_told(); });
  log_.info("detached", {{"session", gone->session().name()}, {"gaps", gone->gaps()}});
  const Peer& peer = peer_of(gone->session());
  if (gone->role() == Role::log || is_wardens(peer)) return;
  report([&](wire::JsonWriter& json) {
    json.member("method", "pod.detach").member("session", gone->session().name()).member("peer_pid", peer.pid);
  });
}

bool Daemon::is_attended() const {
  return controller_ || std::any_of(outputs_.begin(), outputs_.end(),
                                    [](const OutputPtr& output) { return output->role() != Role::log; });
}

// Not before its socket has all of it: who is attached keeps a pod that somebody else collects.
void Daemon::detach_when_sent(const OutputPtr& output) {
  output->session().when_sent([this, weak = std::weak_ptr<Output>(output)] {
    if (const OutputPtr sent = weak.lock()) detach(*sent);
  });
}

void Daemon::set_controller(const OutputPtr& output) {
  if (controller_ == output) return;
  const OutputPtr before = std::exchange(controller_, output);
  const auto tell = [](Output& told) {
    told.send_latest("pod.role", wire::to_json([&](wire::JsonWriter& json) {
                       json.begin_object().member("role", to_string(told.role())).end_object();
                     }));
  };
  if (before && before->role() == Role::control) {
    before->set_role(Role::view);
    if (!before->is_over()) tell(*before);
  }
  if (output && output->role() != Role::control) {
    output->set_role(Role::control);
    tell(*output);
  }
}

void Daemon::tell_exit(const OutputPtr& output) {
  const std::weak_ptr<Output> weak = output;
  output->finish_at(screen_.end(), [this, weak] {
    const OutputPtr told = weak.lock();
    if (!told) return;
    told->send_event("pod.exit", wire::to_json([&](wire::JsonWriter& json) {
                       json.begin_object();
                       write_exit(json, *record_.wait_status);
                       json.member("offset", screen_.end()).end_object();
                     }));
    detach_when_sent(told);
  });
}

}  // namespace sallyport::pod

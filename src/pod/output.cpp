#include "pod/output.h"

#include <algorithm>
#include <array>

#include "pod/limits.h"

namespace sallyport::pod {

std::string_view to_string(Role role) {
  constexpr std::array<std::string_view, 3> kNames = {"control", "view", "log"};
  return kNames.at(static_cast<std::size_t>(role));
}

Output::Output(const Screen& screen, std::shared_ptr<ipc::Session> session, std::string id, Role role,
               std::shared_ptr<ipc::OutStream> stream, std::uint64_t from)
    : screen_(screen), session_(std::move(session)), id_(std::move(id)), role_(role), cursor_(from) {
  watch(std::move(stream));
}

Output::~Output() { stop(); }

void Output::stop() {
  if (std::exchange(is_over_, true)) return;
  stream_->on_credit({});
  done_ = nullptr;
}

void Output::lose() {
  stop();
  if (on_loss_) on_loss_();
}

void Output::refuse_input(const Error& error) {
  if (const auto input = input_.lock()) input->fail(error);
}

void Output::watch(std::shared_ptr<ipc::OutStream> stream) {
  stream_ = std::move(stream);
  stream_->set_endless(!last_);
  sendable_ = stream_->sendable();
  stream_->on_credit([this] { granted(); });
}

// How fast it reads shows only while there is something for it to read.
void Output::granted() {
  const std::size_t now_sendable = stream_->sendable();
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now_sendable > sendable_) {
    const double seconds = std::max(std::chrono::duration<double>(now - busy_since_).count(), 1e-6);
    const double sample = static_cast<double>(now_sendable - sendable_) / seconds;
    bytes_per_second_ = bytes_per_second_ == 0 ? sample : (bytes_per_second_ + sample) / 2;
    busy_since_ = now;
    sendable_ = now_sendable;
  }
  push();
}

bool Output::is_too_slow() const {
  if (role_ == Role::log || last_ || bytes_per_second_ == 0) return false;
  const auto unused = static_cast<double>(screen_.end() - cursor_ + in_flight());
  constexpr double kSeconds = std::chrono::duration<double>(kMostDelay).count();
  return unused > static_cast<double>(kNeverBehindBytes) && unused > bytes_per_second_ * kSeconds;
}

void Output::push() {
  if (is_over_) return;
  if (stream_->is_over()) return lose();
  if (cursor_ < screen_.begin() || is_too_slow()) is_behind_ = true;
  if (is_behind_ && !skip()) return;
  const std::uint64_t end = last_.value_or(screen_.end());
  if (cursor_ < end && in_flight() < wire::kPodWindow.grant_after) busy_since_ = std::chrono::steady_clock::now();
  while (cursor_ < end) {
    const std::size_t room = std::min(stream_->sendable(), kReadBytes);
    if (room == 0) break;
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(room, end - cursor_));
    for (const ByteView piece : screen_.read(cursor_, want)) {
      if (piece.empty()) continue;
      stream_->send(piece);
      cursor_ += piece.size();
    }
    if (stream_->is_over()) return lose();
  }
  sendable_ = stream_->sendable();
  if (last_ && cursor_ >= *last_) {
    const auto done = std::exchange(done_, nullptr);
    stream_->on_credit({});
    stream_->finish();
    is_over_ = true;
    if (done) done();
  }
}

void Output::finish_at(std::uint64_t end, std::function<void()> done) {
  last_ = end;
  stream_->set_endless(false);
  done_ = std::move(done);
  push();
}

// True once the client is on a new stream, at a place near the end. Before that it must have used up nearly
// all of the old one, or the repaint would be late too.
bool Output::skip() {
  if (in_flight() > wire::kPodWindow.grant_after) return false;
  const std::uint64_t from =
      std::max(cursor_, role_ == Role::log ? screen_.begin() : screen_.repaint_from(kGapRepaintBytes));
  is_behind_ = false;
  if (from != cursor_) go_on_from(from, false);
  return !is_over_;
}

bool Output::has_backlog() const { return !is_over_ && in_flight() > wire::kPodWindow.grant_after; }

void Output::interrupt() {
  if (last_ || !has_backlog()) return;
  is_behind_ = false;
  // Some of what was sent, but is not shown now, is shown again.
  go_on_from(screen_.repaint_from(kGapRepaintBytes), true);
  push();
}

void Output::go_on_from(std::uint64_t offset, bool is_interrupted) {
  stream_->on_credit({});
  stream_->finish();
  auto next = session_->streams().open();
  if (!next) {
    is_over_ = true;
    return session_->close();
  }
  const std::uint64_t skipped = offset - std::min(offset, cursor_);
  cursor_ = offset;
  ++gaps_;
  watch(std::move(*next));
  send_event("pod.gap", wire::to_json([&](wire::JsonWriter& json) {
               json.begin_object().member("offset", offset).member("skipped", skipped);
               json.member("repaint", screen_.end() - offset).member("interrupted", is_interrupted).key("output");
               json.begin_object().member("$stream", stream_->number()).end_object().end_object();
             }));
  if (on_gap_) on_gap_();
}

}  // namespace sallyport::pod

#include "ledger/queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ledger/limits.h"

namespace sallyport::ledger {
namespace {

// A piece of memory that is filled with entries before there is another.
constexpr std::size_t kPackedBytes = 64U << 10;

std::size_t payload_of(const Submission& submission) {
  std::size_t bytes = submission.packed.payload_bytes();
  for (const Entry& entry : submission.entries) bytes += entry.unhashed_payload.size();
  return bytes;
}

}  // namespace

std::size_t Queue::items_of(const Submission& submission) {
  return std::max<std::size_t>(1, submission.packed.count());
}

void Queue::add(const Submission& submission) {
  items_ += items_of(submission);
  durable_ += submission.durability == Durability::durable ? 1 : 0;
  payload_bytes_ += payload_of(submission);
}

void Queue::remove(const Submission& submission) {
  items_ -= items_of(submission);
  durable_ -= submission.durability == Durability::durable ? 1 : 0;
  payload_bytes_ -= payload_of(submission);
}

bool Queue::push(Submission&& submission) {
  bool must_wake = false;
  // The writer is behind: whoever comes now makes his own payload small.
  if (payload_of(submission) > 0 && has_much_payload()) {
    for (Entry& entry : submission.entries) hash_payload(entry);
  }
  {
    const std::lock_guard lock(mutex_);
    if (submission.durability == Durability::buffered && items_ >= kMaxBacklog) return false;
    const bool was_urgent = is_urgent();
    const bool was_empty = submissions_.empty();
    if (was_empty) due_ = std::chrono::steady_clock::now() + kBufferedDelay;
    add(submission);
    submissions_.push_back(std::move(submission));
    // Whoever sleeps already knows when the first is due: a wake-up per record would cost more than it.
    must_wake = (was_empty || (!was_urgent && is_urgent())) && !wake_later();
  }
  if (must_wake) wake_.notify_one();
  return true;
}

bool Queue::push(EntryView entry) {
  std::unique_lock lock(mutex_);
  if (payload_bytes_ >= kMaxPayloadBytes) {
    lock.unlock();
    hash_payload(entry);
    lock.lock();
  }
  const bool has_place = !submissions_.empty() && submissions_.back().packed.count() > 0 &&
                         submissions_.back().packed.bytes() < kPackedBytes;
  if (!has_place) {
    lock.unlock();
    Submission submission{.durability = Durability::buffered};
    submission.packed.add(entry);
    return push(std::move(submission));
  }
  if (items_ >= kMaxBacklog) return false;
  const bool was_urgent = is_urgent();
  submissions_.back().packed.add(entry);
  ++items_;
  payload_bytes_ += entry.unhashed_payload.size();
  const bool must_wake = !was_urgent && is_urgent() && !wake_later();
  lock.unlock();
  if (must_wake) wake_.notify_one();
  return true;
}

void Queue::push(Reading reading) {
  {
    const std::lock_guard lock(mutex_);
    readings_.push_back(std::move(reading));
    if (wake_later()) return;
  }
  wake_.notify_one();
}

bool Queue::wake_later() {
  must_wake_ = must_wake_ || holds_ > 0;
  return holds_ > 0;
}

void Queue::hold() {
  const std::lock_guard lock(mutex_);
  ++holds_;
}

void Queue::release() {
  {
    const std::lock_guard lock(mutex_);
    if (--holds_ > 0 || !std::exchange(must_wake_, false)) return;
  }
  wake_.notify_one();
}

bool Queue::is_urgent() const {
  const bool is_plenty = payload_bytes_ >= kEarlyPayloadBytes || items_ >= kMaxGroup;
  return durable_ > 0 || !readings_.empty() || is_closed_ || (is_plenty && !is_stuck_);
}

Queue::Batch Queue::take(std::optional<SteadyTime> until) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const SteadyTime now = std::chrono::steady_clock::now();
    const bool is_due = (!submissions_.empty() && due_ <= now) || (until && *until <= now);
    const bool is_wanted = is_urgent() || is_due;
    if (is_wanted && holds_ == 0) break;
    if (is_wanted) {
      must_wake_ = true;
      wake_.wait(lock);
    } else if (submissions_.empty() && !until) {
      wake_.wait(lock);
    } else {
      const SteadyTime first = submissions_.empty() ? *until : until ? std::min(due_, *until) : due_;
      wake_.wait_until(lock, first);
    }
  }
  is_stuck_ = false;
  Batch batch;
  batch.may_use_reserve = std::any_of(submissions_.begin(), submissions_.end(),
                                      [](const Submission& each) { return each.may_use_reserve; });
  for (std::size_t items = 0; !submissions_.empty(); submissions_.pop_front()) {
    Submission& next = submissions_.front();
    items += items_of(next);
    if (items > kMaxGroup && !batch.submissions.empty()) break;
    remove(next);
    batch.submissions.push_back(std::move(next));
  }
  // What is left was there before: due at once.
  batch.readings.assign(std::make_move_iterator(readings_.begin()), std::make_move_iterator(readings_.end()));
  readings_.clear();
  waiting_ = submissions_.size();
  batch.is_closing = is_closed_;
  batch.is_last = is_closed_ && submissions_.empty();
  return batch;
}

void Queue::put_back(std::vector<Submission> submissions) {
  const std::lock_guard lock(mutex_);
  for (const Submission& submission : submissions) add(submission);
  due_ = std::chrono::steady_clock::now() + kRetryDelay;
  is_stuck_ = true;
  waiting_ += submissions.size();
  submissions_.insert(submissions_.begin(), std::make_move_iterator(submissions.begin()),
                      std::make_move_iterator(submissions.end()));
}

std::vector<Submission> Queue::take_durable() {
  const std::lock_guard lock(mutex_);
  std::vector<Submission> durable;
  std::deque<Submission> rest;
  for (std::size_t i = 0; i < submissions_.size(); ++i) {
    Submission& submission = submissions_[i];
    if (submission.durability == Durability::buffered || i >= waiting_) {
      rest.push_back(std::move(submission));
    } else {
      remove(submission);
      durable.push_back(std::move(submission));
    }
  }
  submissions_ = std::move(rest);
  waiting_ -= durable.size();
  return durable;
}

void Queue::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    if (wake_later()) return;
  }
  wake_.notify_one();
}

bool Queue::has_much_payload() const {
  const std::lock_guard lock(mutex_);
  return payload_bytes_ >= kMaxPayloadBytes;
}

std::size_t Queue::size() const {
  const std::lock_guard lock(mutex_);
  return items_;
}

}  // namespace sallyport::ledger

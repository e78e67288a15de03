#include "mailbox/intake.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "mailbox/limits.h"

namespace sallyport::mailbox {

Intake::~Intake() {
  close();
  *self_ = nullptr;
}

void Intake::start() {
  is_started_ = true;
  UniqueFd notices{::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
  if (notices) {
    if (auto watch = ipc::Watch::open(loop_, std::move(notices))) notices_ = std::move(*watch);
  }
  if (notices_) {
    listen(notices_);
  } else {
    log_.warn("no notices of new messages; mailboxes are read by the clock");
  }
  for (auto& [container, slot] : slots_) watch(slot);
  set_timer(false);
  schedule();
}

void Intake::close() {
  if (std::exchange(is_closed_, true)) return;
  if (notices_) notices_->cancel();
  loop_.cancel(timer_);
  loop_.cancel(fast_timer_);
}

void Intake::add(Box& box) {
  Slot& slot = slots_[box.container()];
  slot = Slot();
  slot.box = &box;
  if (!is_started_) return;
  watch(slot);
  schedule();
}

void Intake::remove(const std::string& container) {
  const auto found = slots_.find(container);
  if (found == slots_.end()) return;
  if (found->second.watch >= 0) {
    ::inotify_rm_watch(notices_->fd(), found->second.watch);
    watches_.erase(found->second.watch);
  }
  slots_.erase(found);
}

void Intake::wake(const std::string& container) {
  const auto found = slots_.find(container);
  if (found == slots_.end() || !found->second.is_paused) return;
  found->second.is_paused = false;
  schedule();
}

void Intake::wake_all() {
  for (auto& [container, slot] : slots_) slot.is_paused = false;
  schedule();
}

void Intake::sweep(const std::string& container) {
  const auto found = slots_.find(container);
  if (found == slots_.end()) return;
  found->second.needs_sweep = true;
  found->second.was_swept = false;
  schedule();
}

bool Intake::is_watched(const std::string& container) const {
  const auto found = slots_.find(container);
  return found != slots_.end() && found->second.watch >= 0;
}

bool Intake::is_idle(const std::string& container) const {
  const auto found = slots_.find(container);
  return found == slots_.end() || !found->second.fault.empty() ||
         (found->second.was_swept && found->second.names.empty() && !found->second.is_sweeping &&
          !found->second.needs_sweep);
}

// ---- what the kernel says ----

// Watch first, then sweep: what comes in between is found by one of them.
void Intake::watch(Slot& slot) {
  slot.needs_sweep = true;
  if (!notices_) {
    if (fast_timer_ == 0) set_timer(true);
    return;
  }
  const std::string path = "/proc/self/fd/" + std::to_string(slot.box->new_directory());
  slot.watch = ::inotify_add_watch(notices_->fd(), path.c_str(), IN_MOVED_TO | IN_ONLYDIR);
  if (slot.watch >= 0) {
    watches_[slot.watch] = slot.box->container();
  } else {
    log_.warn("a mailbox cannot be watched and is read by the clock",
              {{"container", slot.box->container()}, {"errno", errno_name(errno)}});
    if (fast_timer_ == 0) set_timer(true);
  }
}

Fire Intake::listen(std::shared_ptr<ipc::Watch> watch) {
  // Not as the condition of the loop: g++ 12 lays the frame out wrongly then.
  for (;;) {
    const bool is_ready = co_await watch->readable();
    if (!is_ready || is_closed_) co_return;
    read_notices(watch->fd());
  }
}

void Intake::read_notices(int fd) {
  alignas(inotify_event) std::array<char, 32U << 10> block;
  const ssize_t count = ::read(fd, block.data(), block.size());
  for (ssize_t at = 0; at < count;) {
    const auto* event = reinterpret_cast<const inotify_event*>(block.data() + at);
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    if ((event->mask & IN_Q_OVERFLOW) != 0) {
      for (auto& [container, slot] : slots_) slot.needs_sweep = true;
    } else if (const auto found = watches_.find(event->wd); found != watches_.end() && event->len > 0) {
      if (const auto slot = slots_.find(found->second); slot != slots_.end()) hint(slot->second, event->name);
    }
  }
  // At once: to come back for it would cost as much again as a single message does.
  if (!is_scheduled_) pump();
}

void Intake::hint(Slot& slot, const char* name) {
  // A sweep under way may have passed it by; another one will not.
  if (slot.is_sweeping || slot.names.size() >= kMaxHints) {
    slot.needs_sweep = true;
  } else if (!slot.needs_sweep) {
    slot.names.emplace_back(name);
  }
}

void Intake::rescan(bool only_unwatched) {
  for (auto& [container, slot] : slots_) {
    if (only_unwatched && slot.watch >= 0) continue;
    const Status checked = slot.box->check();
    const std::string fault = checked ? "" : checked.error().message;
    if (fault != slot.fault) {
      slot.fault = fault;
      slot.names.clear();
      slot.is_sweeping = false;
      hooks_.on_fault(container, fault);
    }
    slot.needs_sweep = true;
    slot.is_paused = false;  // if there is still no room, its next file will tell
  }
  schedule();
}

void Intake::set_timer(bool for_unwatched) {
  (for_unwatched ? fast_timer_ : timer_) =
      loop_.after(for_unwatched ? kUnwatchedRescanEvery : kRescanEvery, [this, for_unwatched] {
        const bool is_wanted = !for_unwatched || std::any_of(slots_.begin(), slots_.end(),
                                                             [](const auto& entry) { return entry.second.watch < 0; });
        if (for_unwatched) fast_timer_ = 0;
        if (!is_wanted) return;
        rescan(for_unwatched);
        set_timer(for_unwatched);
      });
}

// ---- a turn's work ----

void Intake::schedule() {
  if (!is_started_ || is_closed_ || is_scheduled_) return;
  is_scheduled_ = true;
  loop_.post([self = self_] {
    if (*self != nullptr) (*self)->pump();
  });
}

void Intake::pump() {
  is_scheduled_ = false;
  if (is_closed_) return;
  // A turn's messages go into one commit.
  const ledger::Ledger::Hold together = ledger_.hold();
  std::size_t total = 0;
  for (bool has_worked = true; has_worked && total < kFilesPerTurn;) {
    has_worked = false;
    // Round and round, beginning behind whose turn it was last.
    auto next = slots_.upper_bound(last_);
    for (std::size_t i = slots_.size(); i > 0 && total < kFilesPerTurn; --i) {
      if (next == slots_.end()) next = slots_.begin();
      Slot& slot = next->second;
      last_ = next->first;
      ++next;
      for (std::size_t share = 0; share < kFilesPerBox && total < kFilesPerTurn && slot.has_work(); ++share) {
        total += look_at_one(slot) ? 1 : 0;
        has_worked = true;
      }
    }
  }
  const bool is_left =
      std::any_of(slots_.begin(), slots_.end(), [](const auto& entry) { return entry.second.has_work(); });
  if (is_left) schedule();
}

bool Intake::look_at_one(Slot& slot) {
  if (slot.names.empty()) {
    if (!slot.is_sweeping) {
      slot.needs_sweep = false;
      slot.is_sweeping = true;
      slot.box->rewind();
    }
    for (std::string& name : slot.box->next()) slot.names.push_back(std::move(name));
    if (slot.names.empty()) {
      slot.is_sweeping = false;
      slot.was_swept = slot.was_swept || !slot.needs_sweep;
      return false;
    }
  }
  if (!hooks_.look(slot.box->container(), slot.names.front())) {
    slot.is_paused = true;
    return false;
  }
  slot.names.pop_front();
  return true;
}

}  // namespace sallyport::mailbox

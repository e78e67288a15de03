#include "ipc/timers.h"

#include <utility>

namespace sallyport::ipc {
namespace {

// Of an id; the rest is the timer's number, so that an id says which slot it was, and whether it still is.
constexpr int kSlotBits = 24;
constexpr std::uint32_t kSlotMask = (1U << kSlotBits) - 1;

}  // namespace

Timers::Id Timers::id_of(std::uint32_t slot) const { return slots_[slot].number << kSlotBits | slot; }

Timers::Id Timers::add(SteadyTime when, std::function<void()> work) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  Slot& timer = slots_[slot];
  timer.when = when;
  timer.number = ++added_;
  timer.work = std::move(work);
  heap_.push_back(slot);
  timer.place = heap_.size() - 1;
  rise(timer.place);
  return id_of(slot);
}

void Timers::cancel(Id id) {
  const std::uint32_t slot = static_cast<std::uint32_t>(id) & kSlotMask;
  if (slot >= slots_.size() || id_of(slot) != id || !slots_[slot].work) return;
  // What it holds may end more timers: it goes when this one is gone.
  const std::function<void()> work = remove(slot);
}

std::optional<SteadyTime> Timers::earliest() const {
  if (heap_.empty()) return std::nullopt;
  return slots_[heap_.front()].when;
}

std::function<void()> Timers::take_due(SteadyTime now) {
  if (heap_.empty() || slots_[heap_.front()].when > now) return nullptr;
  return remove(heap_.front());
}

std::function<void()> Timers::remove(std::uint32_t slot) {
  const std::size_t place = slots_[slot].place;
  const std::uint32_t last = heap_.back();
  heap_.pop_back();
  if (last != slot) {
    put(place, last);
    rise(place);
    sink(slots_[last].place);
  }
  free_.push_back(slot);
  return std::exchange(slots_[slot].work, nullptr);
}

bool Timers::is_before(std::uint32_t a, std::uint32_t b) const {
  const Slot &first = slots_[a], &second = slots_[b];
  return first.when != second.when ? first.when < second.when : first.number < second.number;
}

void Timers::put(std::size_t place, std::uint32_t slot) {
  heap_[place] = slot;
  slots_[slot].place = place;
}

void Timers::rise(std::size_t place) {
  const std::uint32_t slot = heap_[place];
  while (place > 0) {
    const std::size_t above = (place - 1) / 2;
    if (!is_before(slot, heap_[above])) break;
    put(place, heap_[above]);
    place = above;
  }
  put(place, slot);
}

void Timers::sink(std::size_t place) {
  const std::uint32_t slot = heap_[place];
  for (;;) {
    std::size_t below = 2 * place + 1;
    if (below >= heap_.size()) break;
    if (below + 1 < heap_.size() && is_before(heap_[below + 1], heap_[below])) ++below;
    if (!is_before(heap_[below], slot)) break;
    put(place, heap_[below]);
    place = below;
  }
  put(place, slot);
}

}  // namespace sallyport::ipc

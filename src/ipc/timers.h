// Timers in the order in which they are due. Most are cancelled long before: every call has one, so that setting and
// cancelling one costs no memory once as many were set before. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace sallyport::ipc {

class Timers {
 public:
  using Id = std::uint64_t;  // never 0, and not used again

  Id add(SteadyTime when, std::function<void()> work);
  void cancel(Id id);  // one that is over already is ignored
  std::optional<SteadyTime> earliest() const;
  // The work of the earliest, which is over then. Null if none is due. Of those due at the same time the first that was
  // added comes first.
  std::function<void()> take_due(SteadyTime now);

 private:
  struct Slot {
    SteadyTime when;
    std::uint64_t number = 0;  // among all that were added
    std::function<void()> work;
    std::size_t place = 0;  // in the heap
  };
  Id id_of(std::uint32_t slot) const;
  bool is_before(std::uint32_t a, std::uint32_t b) const;
  void put(std::size_t place, std::uint32_t slot);
  void rise(std::size_t place);
  void sink(std::size_t place);
  std::function<void()> remove(std::uint32_t slot);

  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> heap_;  // of slots; the earliest first
  std::uint64_t added_ = 0;
};

}  // namespace sallyport::ipc

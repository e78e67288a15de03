#include "ipc/loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "ipc/timers.h"

namespace sallyport::ipc {
namespace {

// Enough for the connections that are busy at once; others come with the next turn.
constexpr std::size_t kEventsPerTurn = 128;

// A signal handler can reach nothing but a global. One loop of a process handles signals.
std::atomic<int> signal_fd{-1};
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<std::uint8_t>(signal);
  // A full pipe holds thousands of signals that nobody has looked at yet: one more says nothing new.
  [[maybe_unused]] const ssize_t written = ::write(signal_fd, &byte, 1);
  errno = saved;
}

// Out of descriptors before anything is served: there is no way to go on, and nobody to tell.
UniqueFd must(int fd) {
  if (fd < 0) std::abort();
  return UniqueFd(fd);
}

}  // namespace

// What the loop knows of a descriptor. Level-triggered, and registered once: a wait costs no system call
// unless it wants something new. An event that nobody waits for takes that interest back.
struct Watch::Impl {
  Loop::Impl& loop;
  UniqueFd fd;
  std::array<Wait*, 3> waits{};  // by For
  std::uint32_t armed = 0;
  bool is_registered = false;
  // All Watches of a loop, in a ring.
  Watch* watch = nullptr;
  Impl *before = this, *behind = this;

  explicit Impl(Loop::Impl& owner) : loop(owner) {}

  Wait*& wait_for(For what) { return waits.at(static_cast<std::size_t>(what)); }
  // Errors and hang-ups are always reported.
  std::uint32_t wanted() {
    return (wait_for(For::read) ? std::uint32_t{EPOLLIN} : 0) | (wait_for(For::write) ? std::uint32_t{EPOLLOUT} : 0);
  }
  bool is_waited_for() { return wait_for(For::read) || wait_for(For::write) || wait_for(For::hangup); }
  int arm(std::uint32_t events);
  void disarm();
  void leave();
  void handle(std::uint32_t events);
};

struct Loop::Impl {
  UniqueFd epoll = must(::epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake_fd = must(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd timer_fd = must(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  UniqueFd signals_in, signals_out;
  std::function<void(int)> on_signal;
  std::vector<int> caught_signals;

  Timers timers;
  struct Sleeper {
    TimerId timer;
    std::coroutine_handle<> waiter;
  };
  std::map<std::uint64_t, Sleeper> sleepers;  // in the order in which they went to sleep
  std::uint64_t last_sleeper = 0;
  std::optional<SteadyTime> armed_for;  // when the kernel's timer rings

  std::mutex posted_mutex;
  std::vector<std::function<void()>> posted;
  std::atomic<bool> has_posted = false;
  std::atomic<bool> is_asleep = false;  // or about to be: set before it looks for posted work a last time

  // What epoll has no room for, until it has: the kernel counts for all processes of a user together, and what runs in
  // a sandbox can use up all that there is.
  struct Polled {
    int fd;
    std::uint32_t events;
    void* data;
  };
  std::vector<Polled> polled;

  // The turn's events, so that a Watch that goes meanwhile is not called.
  std::array<epoll_event, kEventsPerTurn> events{};
  std::size_t event_count = 0, next_event = 0;
  Spinner spinner;
  std::size_t unhurried = 0;
  bool is_stopped = false;
  std::uint64_t turns = 0;
  Watch::Impl watches{*this};  // the ring's beginning, no Watch itself

  explicit Impl(Spinner::Mode mode) : spinner(mode) {
    watch_own(wake_fd);
    watch_own(timer_fd);
  }
  ~Impl() {
    for (const int signal : caught_signals) ::signal(signal, SIG_DFL);
    if (signals_in) signal_fd = -1;
  }

  // The loop's own descriptors are told apart from Watches by pointing into the loop.
  void watch_own(UniqueFd& fd) {
    if (watch(fd.get(), EPOLLIN, &fd, false) != 0) std::abort();
  }

  // Answers 0 or an errno; never fails for what is watched already.
  int watch(int fd, std::uint32_t wanted, void* data, bool is_watched) {
    for (Polled& each : polled) {
      if (each.data != data) continue;
      each.events = wanted;
      return 0;
    }
    epoll_event event{.events = wanted, .data = {.ptr = data}};
    if (::epoll_ctl(epoll.get(), is_watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0) return 0;
    if (errno != ENOSPC) return errno;
    polled.push_back({fd, wanted, data});
    return 0;
  }

  void unwatch(int fd, const void* data) {
    const auto gone = std::erase_if(polled, [&](const Polled& each) { return each.data == data; });
    if (gone == 0) ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, fd, nullptr);
  }

  std::size_t look_by_poll(int timeout) {
    const Polled first = polled.front();
    epoll_event event{.events = first.events, .data = {.ptr = first.data}};
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, first.fd, &event) == 0) polled.erase(polled.begin());
    std::vector<pollfd> fds = {{epoll.get(), POLLIN, 0}};
    for (const Polled& each : polled) fds.push_back({each.fd, static_cast<short>(each.events), 0});
    if (::poll(fds.data(), fds.size(), timeout) <= 0) return 0;
    // Half of the places, so that both get on, beginning with another one each time.
    std::size_t count = 0;
    for (std::size_t i = 0; i < polled.size() && count < events.size() / 2; ++i) {
      const std::size_t at = (turns + i) % polled.size();
      const auto ready = static_cast<std::uint32_t>(fds[at + 1].revents);
      if (ready != 0) events.at(count++) = {.events = ready, .data = {.ptr = polled[at].data}};
    }
    const int others = ::epoll_wait(epoll.get(), events.data() + count, static_cast<int>(events.size() - count), 0);
    return count + static_cast<std::size_t>(std::max(others, 0));
  }

  std::size_t look(int timeout) {
    if (!polled.empty()) return look_by_poll(timeout);
    const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), timeout);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }

  void turn() {
    ++turns;
    run_posted();
    if (is_stopped) return;
    event_count = 0;
    if (has_posted) {
      event_count = look(0);
    } else if (unhurried > 0) {
      sleep();
    } else {
      spinner.wait([this] { return has_posted || (event_count = look(0)) != 0; }, [this] { sleep(); });
    }
    // What a stop leaves unhandled is reported again.
    for (next_event = 0; next_event < event_count && !is_stopped;) {
      const epoll_event event = events.at(next_event++);
      if (event.data.ptr == &timer_fd) {
        fire_timers();
      } else if (event.data.ptr == &wake_fd) {
        std::uint64_t ignored = 0;
        [[maybe_unused]] const ssize_t count = ::read(wake_fd.get(), &ignored, sizeof ignored);
      } else if (event.data.ptr == &signals_out) {
        handle_signals();
      } else if (event.data.ptr != nullptr) {
        static_cast<Watch::Impl*>(event.data.ptr)->handle(event.events);
      }
    }
  }

  void sleep() {
    is_asleep = true;
    event_count = look(has_posted ? 0 : -1);
    is_asleep = false;
  }

  void forget(const Watch::Impl* watch) {
    for (std::size_t i = next_event; i < event_count; ++i) {
      if (events.at(i).data.ptr == watch) events.at(i).data.ptr = nullptr;
    }
  }

  void post(std::function<void()> work) {
    {
      const std::lock_guard lock(posted_mutex);
      posted.push_back(std::move(work));
      // Whoever is awake looks for it before it sleeps.
      if (has_posted.exchange(true) || !is_asleep) return;
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_fd.get(), &one, sizeof one);
  }

  void run_posted() {
    if (!has_posted) return;
    std::vector<std::function<void()>> work;
    {
      const std::lock_guard lock(posted_mutex);
      work.swap(posted);
      has_posted = false;
    }
    for (const auto& item : work) item();
  }

  // The kernel's timer rings no later than the earliest of ours. Once for nothing, where that one was cancelled, costs
  // less than setting it for each: on a virtual machine that leaves the guest.
  void arm_timer() {
    const auto earliest = timers.earliest();
    if (!earliest || (armed_for && *armed_for <= *earliest)) return;
    armed_for = earliest;
    const auto since_boot = earliest->time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
    itimerspec when{};
    when.it_value = {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(since_boot - seconds).count()};
    ::timerfd_settime(timer_fd.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

  void fire_timers() {
    std::uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t count = ::read(timer_fd.get(), &ignored, sizeof ignored);
    armed_for.reset();
    const SteadyTime now = std::chrono::steady_clock::now();
    while (const auto work = timers.take_due(now)) work();
    arm_timer();
  }

  void handle_signals() {
    std::uint8_t signal = 0;
    while (::read(signals_out.get(), &signal, 1) == 1) on_signal(signal);
  }
};

Loop::Loop(Spinner::Mode spin) : impl_(std::make_unique<Impl>(spin)) {}
Loop::~Loop() = default;

void Loop::run() {
  impl_->is_stopped = false;
  while (!impl_->is_stopped) impl_->turn();
}

void Loop::stop() { impl_->is_stopped = true; }

void Loop::settle() {
  for (;;) {
    Watch::Impl& ring = impl_->watches;
    for (Watch::Impl* each = ring.behind; each != &ring; each = each->behind) each->watch->cancel();
    const auto sleepers = std::exchange(impl_->sleepers, {});
    if (sleepers.empty() && !impl_->has_posted) return;
    ++impl_->turns;
    impl_->run_posted();
    for (const auto& [number, sleeper] : sleepers) {
      cancel(sleeper.timer);
      sleeper.waiter.resume();
    }
  }
}

std::uint64_t Loop::turn() const { return impl_->turns; }

void Loop::post(std::function<void()> work) { impl_->post(std::move(work)); }

void Loop::on_signals(std::initializer_list<int> signals, std::function<void(int)> handle) {
  impl_->on_signal = std::move(handle);
  if (!impl_->signals_in) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    impl_->signals_out = UniqueFd(ends[0]);
    impl_->signals_in = UniqueFd(ends[1]);
    impl_->watch_own(impl_->signals_out);
  }
  signal_fd = impl_->signals_in.get();
  struct sigaction action{};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : signals) {
    ::sigaction(signal, &action, nullptr);
    impl_->caught_signals.push_back(signal);
  }
}

Loop::TimerId Loop::after(Millis delay, std::function<void()> work) {
  const TimerId id = impl_->timers.add(std::chrono::steady_clock::now() + delay, std::move(work));
  impl_->arm_timer();
  return id;
}

Loop::Unhurried::Unhurried(Loop& loop) : loop_(loop) { ++loop_.impl_->unhurried; }
Loop::Unhurried::~Unhurried() { --loop_.impl_->unhurried; }

void Loop::cancel(TimerId timer) { impl_->timers.cancel(timer); }

void Loop::wake_after(Millis delay, std::coroutine_handle<> waiter) {
  // Others' turn first, and no clock needed for that.
  if (delay.count() <= 0) return post([waiter] { waiter.resume(); });
  const std::uint64_t number = ++impl_->last_sleeper;
  const TimerId timer = after(delay, [this, number] {
    const auto sleeper = impl_->sleepers.extract(number);
    sleeper.mapped().waiter.resume();
  });
  impl_->sleepers.emplace(number, Impl::Sleeper{timer, waiter});
}

// ---- Watch ----

int Watch::Impl::arm(std::uint32_t events) {
  if (!fd || (is_registered && (events & ~armed) == 0)) return 0;
  if (const int error = loop.watch(fd.get(), armed | events, this, is_registered); error != 0) return error;
  armed |= events;
  is_registered = true;
  return 0;
}

void Watch::Impl::disarm() {
  armed = wanted();
  const bool stays = is_waited_for();
  if (stays) {
    loop.watch(fd.get(), armed, this, true);
  } else {
    loop.unwatch(fd.get(), this);
  }
  is_registered = stays;
}

// Nothing of this descriptor is reported any more. Closing is not enough: epoll keeps a descriptor as long as any copy
// of it is open.
void Watch::Impl::leave() {
  if (std::exchange(is_registered, false)) loop.unwatch(fd.get(), this);
  armed = 0;
  loop.forget(this);
}

void Watch::Impl::handle(std::uint32_t events) {
  constexpr std::uint32_t kAlways = EPOLLHUP | EPOLLERR;
  constexpr std::array<std::uint32_t, 3> kWakes = {EPOLLIN | kAlways, EPOLLOUT | kAlways, kAlways};
  std::array<Wait*, 3> ready{};
  for (std::size_t i = 0; i < ready.size(); ++i) {
    if ((events & kWakes.at(i)) != 0) ready.at(i) = std::exchange(waits.at(i), nullptr);
  }
  const std::uint32_t answered = (ready[0] ? kWakes[0] : 0) | (ready[1] ? kWakes[1] : 0) | (ready[2] ? kWakes[2] : 0);
  if ((events & ~answered) != 0) disarm();
  // Resuming may end this Watch: nothing of it is touched any more.
  for (Wait* wait : ready) {
    if (wait == nullptr) continue;
    wait->is_ready = true;
    wait->waiter.resume();
  }
}

Watch::Watch(Loop& owner) : impl_(std::make_unique<Impl>(owner.impl())) {
  Impl& ring = impl_->loop.watches;
  impl_->watch = this;
  impl_->before = std::exchange(ring.before, impl_.get());
  impl_->behind = &ring;
  impl_->before->behind = impl_.get();
}

Watch::~Watch() {
  cancel();
  impl_->before->behind = impl_->behind;
  impl_->behind->before = impl_->before;
  impl_->leave();
}

Result<std::unique_ptr<Watch>> Watch::open(Loop& loop, UniqueFd fd) {
  auto watch = std::make_unique<Watch>(loop);
  TRY(watch->take(std::move(fd)));
  return watch;
}

Status Watch::take(UniqueFd fd) {
  impl_->leave();
  impl_->fd = std::move(fd);
  const int error = impl_->fd ? impl_->arm(EPOLLIN | impl_->wanted()) : EBADF;
  if (error == 0) return ok();
  impl_->fd.reset();
  return Error::from_errno("cannot watch a descriptor", error);
}

UniqueFd Watch::release() {
  impl_->leave();
  return std::move(impl_->fd);
}

int Watch::fd() const { return impl_->fd.get(); }

void Watch::Wait::await_suspend(std::coroutine_handle<> handle) {
  waiter = handle;
  watch.impl_->wait_for(what) = this;
  // What could be watched when the Watch was opened can be watched again.
  watch.impl_->arm(watch.impl_->wanted());
}

void Watch::cancel() {
  if (std::exchange(is_cancelled_, true)) return;
  for (Wait*& wait : impl_->waits) {
    if (wait == nullptr) continue;
    impl_->loop.post([waiter = std::exchange(wait, nullptr)->waiter] { waiter.resume(); });
  }
}

}  // namespace sallyport::ipc

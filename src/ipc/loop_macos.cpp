#include "ipc/loop.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <utility>

namespace sallyport::ipc {

namespace asio = boost::asio;

struct Loop::Impl {
  // The hint says that one thread runs it: no locks, but post() from other threads stays safe.
  asio::io_context context{1};
  asio::steady_timer timer{context};
  asio::signal_set signals{context};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::map<std::pair<SteadyTime, TimerId>, std::function<void()>> timers;
  std::map<TimerId, SteadyTime> due;
  TimerId last_timer = 0;
  Spinner spinner;
  bool is_stopped = false;

  explicit Impl(Spinner::Mode mode) : spinner(mode) {}

  // One Asio timer serves all of ours: it is set to the earliest.
  void arm() {
    if (timers.empty()) {
      timer.cancel();
      return;
    }
    timer.expires_at(timers.begin()->first.first);
    timer.async_wait([this](const boost::system::error_code& error) {
      if (!error) fire();
    });
  }

  void fire() {
    const SteadyTime now = std::chrono::steady_clock::now();
    while (!timers.empty() && timers.begin()->first.first <= now) {
      auto node = timers.extract(timers.begin());
      due.erase(node.key().second);
      node.mapped()();
    }
    arm();
  }

  void wait_for_signal(std::function<void(int)> handle) {
    signals.async_wait([this, handle = std::move(handle)](const boost::system::error_code& error, int signal) mutable {
      if (error) return;
      handle(signal);
      wait_for_signal(std::move(handle));
    });
  }
};

Loop::Loop(Spinner::Mode spin) : impl_(std::make_unique<Impl>(spin)) {}
Loop::~Loop() = default;

void Loop::run() {
  impl_->is_stopped = false;
  while (!impl_->is_stopped) {
    if (impl_->spinner.should_spin() && impl_->spinner.spin([this] { return impl_->context.poll_one() != 0; }))
      continue;
    impl_->context.run_one();
  }
}

void Loop::stop() { impl_->is_stopped = true; }

void Loop::post(std::function<void()> work) { asio::post(impl_->context, std::move(work)); }

void Loop::on_signals(std::initializer_list<int> signals, std::function<void(int)> handle) {
  for (const int signal : signals) impl_->signals.add(signal);
  impl_->wait_for_signal(std::move(handle));
}

Loop::TimerId Loop::after(Millis delay, std::function<void()> work) {
  const TimerId id = ++impl_->last_timer;
  const SteadyTime when = std::chrono::steady_clock::now() + delay;
  const auto placed = impl_->timers.emplace(std::pair(when, id), std::move(work)).first;
  impl_->due.emplace(id, when);
  if (placed == impl_->timers.begin()) impl_->arm();
  return id;
}

void Loop::cancel(TimerId timer) {
  const auto found = impl_->due.find(timer);
  if (found == impl_->due.end()) return;
  impl_->timers.erase(std::pair(found->second, timer));
  impl_->due.erase(found);
}

namespace {

// Asio takes what the kernel cannot wait on and fails at the first wait only: too late to say so.
bool can_be_waited_on(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return false;
  return !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && (!S_ISCHR(info.st_mode) || ::isatty(fd) == 1);
}

}  // namespace

struct Watch::Impl {
  asio::posix::stream_descriptor descriptor;
};

Watch::Watch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Watch::~Watch() = default;

Result<std::unique_ptr<Watch>> Watch::open(Loop& loop, UniqueFd fd) {
  if (!can_be_waited_on(fd.get())) return Error::make(Code::invalid_params, "cannot wait on such a descriptor");
  auto impl = std::make_unique<Impl>(asio::posix::stream_descriptor(loop.impl().context));
  boost::system::error_code error;
  if (impl->descriptor.assign(fd.get(), error)) return Error::from_errno("cannot watch a descriptor", error.value());
  fd.release();
  return std::unique_ptr<Watch>(new Watch(std::move(impl)));
}

int Watch::fd() const {
  // Const in effect: Asio's accessor is not.
  return const_cast<Impl&>(*impl_).descriptor.native_handle();  // NOLINT(*-const-cast)
}

void Watch::Wait::await_suspend(std::coroutine_handle<> handle) {
  waiter = handle;
  using Descriptor = asio::posix::stream_descriptor;
  const auto kind = what == For::read    ? Descriptor::wait_read
                    : what == For::write ? Descriptor::wait_write
                                         : Descriptor::wait_error;
  watch.impl_->descriptor.async_wait(kind, [this](const boost::system::error_code& error) {
    is_ready = !error;
    waiter.resume();
  });
}

void Watch::cancel() {
  is_cancelled_ = true;
  boost::system::error_code error;
  // Fails only for a descriptor that is not open, which has no waiters either.
  [[maybe_unused]] const auto failed = impl_->descriptor.cancel(error);
}

}  // namespace sallyport::ipc

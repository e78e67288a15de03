#include "worker/stop.h"

#include "worker/limits.h"

namespace sallyport::worker {

void Stop::poll() const {
  if (!look_) return;
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now - last_look_ < kPollInterval) return;
  last_look_ = now;
  look_();
}

bool Stop::is_over() const {
  if (std::this_thread::get_id() == owner_) poll();
  return should_stop();
}

Status Stop::check() const {
  poll();
  return verdict();
}

Status Stop::check_now() const {
  if (look_) look_();
  return verdict();
}

Status Stop::verdict() const {
  if (is_cancelled()) return Error::make(Code::cancelled, "cancelled");
  if (is_late()) return Error::make(Code::timeout, "the time for this request is over");
  return ok();
}

}  // namespace sallyport::worker

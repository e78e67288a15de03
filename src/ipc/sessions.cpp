#include "ipc/sessions.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>

#include "ipc/session.h"

namespace sallyport::ipc {
namespace {

constexpr Millis kShortestSweep{20}, kLongestSweep{5000};

}  // namespace

Sessions::~Sessions() {
  if (sweep_timer_ != 0) loop_.cancel(sweep_timer_);
}

void Sessions::for_each(const std::function<void(Session&)>& visit) {
  // A visit may end sessions, and with them others.
  std::vector<std::shared_ptr<Session>> all;
  all.reserve(open_.size());
  for (Session* session : open_) all.push_back(session->shared_from_this());
  for (const auto& session : all) visit(*session);
}

void Sessions::when_empty(std::function<void()> done) {
  if (open_.empty()) return done();
  when_empty_ = std::move(done);
}

void Sessions::add(Session& session) {
  open_.insert(&session);
  plan_sweep();
}

void Sessions::remove(Session& session) {
  open_.erase(&session);
  if (open_.empty() && when_empty_) loop_.post(std::exchange(when_empty_, nullptr));
}

bool Sessions::log_about(std::string_view source, LogLevel level, std::string_view event, Log::Fields fields) {
  auto budget = line_budgets_.find(source);
  if (budget == line_budgets_.end()) budget = line_budgets_.emplace(source, LineBudget()).first;
  plan_sweep();
  const auto left_out = budget->second.take(std::chrono::steady_clock::now());
  if (!left_out) return false;
  tell_left_out(budget->first, *left_out);
  log_.write(level, event, fields);
  return true;
}

void Sessions::tell_left_out(const std::string& source, std::uint64_t count) const {
  if (count != 0) log_.warn("lines were left out", {{"about", source}, {"count", count}});
}

void Sessions::plan_sweep() {
  if (sweep_timer_ != 0 || (open_.empty() && spares_.empty() && line_budgets_.empty())) return;
  const Millis shortest = std::min(limits_.idle_timeout, limits_.frame_timeout);
  sweep_timer_ = loop_.after(std::clamp(shortest / 4, kShortestSweep, kLongestSweep), [this] {
    sweep_timer_ = 0;
    sweep();
    plan_sweep();
  });
}

void Sessions::sweep() {
  const SteadyTime now = std::chrono::steady_clock::now();
  for_each([&](Session& session) { session.close_if_idle(now); });
  for (auto& [source, budget] : line_budgets_) tell_left_out(source, budget.take_left_out());
  std::erase_if(line_budgets_, [&](const auto& entry) { return entry.second.is_full(now); });
  if (counters_.requests == requests_at_last_sweep_ && !spares_.empty()) {
    spares_.clear();
    decoder_.trim();
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
  }
  requests_at_last_sweep_ = counters_.requests;
}

}  // namespace sallyport::ipc

// What the pipeline writes into the ledger about a request: the decision before its handler runs, the
// outcome before its reply is sent.
#pragma once

#include <coroutine>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/base.h"
#include "handlers/method.h"
#include "ipc/ipc.h"
#include "ledger/ledger.h"

namespace sallyport::warden {

// Ten a second for as long as it likes, a few thousand at once: enough for every honest mistake.
inline constexpr ledger::Rate kRefusalRate{.count = 6'000, .period = Millis(600'000)};

class Auditor {
 public:
  Auditor(ledger::Ledger& ledger, const Log& log, const Clock& clock) : ledger_(ledger), log_(log), clock_(clock) {}

  // co_await: ok when the record is as safe as the method's class wants it: `buffered` at once, `durable`
  // when it is on the disk. An error (UNAVAILABLE) means that it could not be recorded. Of what the host brakes with
  // there is none: it is recorded as soon as it can be, the log says so, and so does an event to the caller.
  class Recorded {
   public:
    explicit Recorded(Status result) : result_(std::move(result)) {}
    Recorded(ledger::Ledger& ledger, ledger::Entry entry, std::function<void()> on_delayed);
    bool await_ready() const { return result_.has_value(); }
    void await_suspend(std::coroutine_handle<> waiter);
    Status await_resume() { return std::move(*result_); }

   private:
    ledger::Ledger* ledger_ = nullptr;
    std::optional<ledger::Entry> entry_;  // until it is submitted
    std::function<void()> on_delayed_;    // set: it goes on without
    std::optional<Status> result_;
  };
  Recorded decision(const handlers::Method& method, const handlers::RequestContext& context, ipc::Call& call);
  Recorded outcome(const handlers::Method& method, const handlers::RequestContext& context, ipc::Call& call,
                   ipc::Reply& reply);

  // What a deputy said about a request, in order and before what follows from it. The human gate records its
  // questions itself. UNAVAILABLE if there is no room for it.
  Status reviewed(const handlers::RequestContext& context, ipc::Call& call, const approval::Matter& matter,
                  const approval::Verdict& verdict);

  // A request that policy, its schema or a limit refused, whatever its class: buffered, and in the log. A
  // principal that is refused more often than kRefusalRate cannot fill the disk with it: what is left out is
  // counted, that it begins is recorded at once, and how much it was with the next refusal that is recorded.
  void refused(const handlers::RequestContext& context, ipc::Call& call, const Error& error);

 private:
  // What the caller is not told about a failure, under the id that it knows.
  static void log_failure(std::string_view stage, const handlers::RequestContext& context, ipc::Call& call,
                          const Error& error);
  Recorded record(const ledger::EntryView& entry, const handlers::Method& method,
                  const handlers::RequestContext& context, ipc::Call& call);
  std::function<void()> delayed(const handlers::Method& method, const handlers::RequestContext& context,
                                ipc::Call& call) const;
  void note_suppressed(const std::string& principal, const std::string& what);

  struct Refusals {
    ledger::Micros state = 0;  // of the rate
    std::uint64_t suppressed = 0;
  };

  ledger::Ledger& ledger_;
  const Log& log_;
  const Clock& clock_;
  std::map<std::string, Refusals> refusals_;  // by principal
  Bytes params_;                              // of the request that is being recorded, as JSON
};

}  // namespace sallyport::warden

// What the pipeline writes into the ledger about a request: the decision before its handler runs, the
// outcome before its reply is sent.
#pragma once

#include <coroutine>
#include <optional>
#include <string_view>

#include "base/base.h"
#include "handlers/method.h"
#include "ipc/ipc.h"
#include "ledger/ledger.h"

namespace sallyport::warden {

class Auditor {
 public:
  Auditor(ledger::Ledger& ledger, const Log& log) : ledger_(ledger), log_(log) {}

  // co_await: ok when the record is as safe as the method's class wants it: `buffered` at once, `durable`
  // when it is on the disk. An error (UNAVAILABLE) means that it could not be recorded.
  class Recorded {
   public:
    Recorded(ledger::Ledger& ledger, ledger::Entry entry, handlers::Audit audit);
    bool await_ready() const { return result_.has_value(); }
    void await_suspend(std::coroutine_handle<> waiter);
    Status await_resume() { return std::move(*result_); }

   private:
    ledger::Ledger& ledger_;
    ledger::Entry entry_;
    std::optional<Status> result_;
  };
  Recorded decision(const handlers::Method& method, const handlers::RequestContext& context, ipc::Call& call);
  Recorded outcome(const handlers::Method& method, const handlers::RequestContext& context, ipc::Call& call,
                   ipc::Reply& reply);

  // A request that policy, its schema or a limit refused, whatever its class: buffered, and in the log.
  void refused(const handlers::RequestContext& context, ipc::Call& call, const Error& error);
  // What the caller is not told about a failure, under the id that it knows.
  void log_failure(std::string_view stage, const handlers::RequestContext& context, ipc::Call& call,
                   const Error& error) const;

 private:
  ledger::Ledger& ledger_;
  const Log& log_;
};

}  // namespace sallyport::warden

// Awaiting the ledger: co_await commit(ledger, submission) is ok when it is on the disk.
#pragma once

#include <memory>

#include "base/task.h"
#include "ipc/oneshot.h"
#include "ledger/ledger.h"

namespace sallyport::scheduler {

inline Task<Status> commit(ledger::Ledger& ledger, ledger::Submission submission) {
  const auto done = std::make_shared<ipc::OneShot<Status>>();
  submission.done = [done](Status status) { done->resolve(std::move(status)); };
  ledger.submit(std::move(submission));
  Status status = co_await *done;
  co_return status;
}

}  // namespace sallyport::scheduler

// Awaiting a look into the ledger: co_await look(ledger, work) is ok when `work` ran, on the ledger's thread.
#pragma once

#include <utility>

#include "base/task.h"
#include "ipc/oneshot.h"
#include "ledger/ledger.h"

namespace sallyport::approval {

template <typename Work>
Task<Status> look(ledger::Ledger& ledger, Work work) {
  ipc::OneShot<Status> done;
  ledger.read({.work = work, .done = [&done](Status status) { done.resolve(std::move(status)); }});
  Status status = co_await done;
  co_return status;
}

}  // namespace sallyport::approval

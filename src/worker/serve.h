// The worker's main loop.
#pragma once

#include "base/log.h"
#include "base/unique_fd.h"
#include "worker/service.h"

namespace sallyport::worker {

// Answers requests from the socket, one after the other, until the peer closes it (ok), worker.shutdown
// was answered (ok), or the protocol is broken (the error). Everything that was sent before a shutdown
// is answered first. Raises no signals: SIGXFSZ and SIGPIPE are ignored in this process from here on.
Status serve(UniqueFd socket, const Service& service, const Log& log);

}  // namespace sallyport::worker

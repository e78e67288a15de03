// The launcher: a small, single-threaded process that makes sandboxes for the warden, so that the warden
// itself never clones. Containers live and die with it; it lives and dies with the warden.
#pragma once

#include "sandbox/child.h"

namespace sallyport::sandbox {

// Serves requests on the socket until the warden's end is closed; then every container is killed.
// `worker` is what file workers run. Returns the process's exit status.
int run_launcher(int socket, WorkerEntry worker);

}  // namespace sallyport::sandbox

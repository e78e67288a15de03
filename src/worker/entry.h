// What a sandbox runs as its file worker: see sandbox::WorkerEntry.
#pragma once

namespace sallyport::worker {

// In a container, behind its walls and its own: serves files until whoever holds the other end hangs up.
int serve_files(int socket, const char* workspace, bool refuse_hard_links, char* const* environment);

}  // namespace sallyport::worker

// Giving something another name, on the same file system or another.
#pragma once

#include "worker/root.h"
#include "worker/stop.h"

namespace sallyport::worker {

// A rename where the kernel can. Between two file systems: all of it is looked at first, and refused if the source
// could not be removed; copied to a temporary name beside the new one; put in its place with one rename; and only then
// is the source removed. At each moment one of the two names has all of it, and an error leaves both as they were. The
// exception is a source of which a part was removed already when the rest turned out to stay: then the new name has it
// all, and the error says so.
Status move_entry(const Roots& roots, const Place& from, const Place& to, bool overwrite, const Stop& stop);

}  // namespace sallyport::worker

// How much memory everything in this pid namespace uses, read from its own /proc without allocating.
#pragma once

#include <cstdint>

namespace sallyport::sandbox {

// Resident sizes count shared pages once per process; when their sum passes `exact_above`, the
// proportional sizes are summed instead, which is slower and right. Memory that no process maps
// (a tmpfs file, an unmapped memfd) is not seen: the scratch size bounds the first.
std::uint64_t tree_memory(std::uint64_t exact_above);

}  // namespace sallyport::sandbox

// A file of the host's policy, as text.
#pragma once

#include <cstddef>
#include <string>

#include "base/base.h"

namespace sallyport::policy {

// NOT_FOUND only where there is nothing of that name. Whatever else cannot be read is a fault: a directory, a FIFO
// (which is not waited for), a link that leads nowhere, a file of somebody else's, one above `most` bytes.
Result<std::string> read_text_file(const std::string& path, std::size_t most);

}  // namespace sallyport::policy

// Files without a name, for what a program is handed.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::os {

// There in full before its reader begins, whatever its size, and sealed: nobody can change it any more. Read from its
// beginning on.
Result<UniqueFd> sealed_file(std::string_view content);

}  // namespace sallyport::os

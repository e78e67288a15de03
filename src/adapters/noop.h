// What stands in for an adapter that cannot be had: it does nothing, and says so in every answer.
#pragma once

#include <memory>
#include <string>

#include "adapters/adapter.h"

namespace sallyport::adapters {

// The answer of an adapter that is not there: of the method's shape, empty, with "noop" and "reason".
ipc::Reply answer_noop(ipc::Call& call, const std::string& reason);

}  // namespace sallyport::adapters

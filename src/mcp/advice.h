// What a model is told when a call fails: what happened, why, and what to do next.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace sallyport::mcp {

std::string explain(const Error& error, std::string_view tool, std::string_view workspace);

// For a call that waits for a human.
std::string approval_text(std::string_view approval);

}  // namespace sallyport::mcp

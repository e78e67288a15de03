// Payloads for a human's eyes.
#pragma once

#include <string>
#include <string_view>

namespace sallyport::approval {

// JSON over several lines, indented. Not changed if it is none.
std::string pretty(std::string_view json);

// The unified diff of two payloads in that form; empty if they are equal. Where both are too long to be
// compared line by line it is all of one and all of the other.
std::string payload_diff(std::string_view before, std::string_view after);

}  // namespace sallyport::approval

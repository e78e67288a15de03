// A Spec and a Command as bytes, between the warden and its launcher. Both are of one build, and the
// bytes never leave the machine or touch a disk: no versions, but every length is checked.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sandbox/launch.h"
#include "sandbox/spec.h"

namespace sallyport::sandbox {

std::string encode(const Spec& spec);
std::string encode(const Command& command);  // without its descriptors: they travel beside the bytes
Result<Spec> decode_spec(std::string_view bytes);
Result<Command> decode_command(std::string_view bytes);

}  // namespace sallyport::sandbox

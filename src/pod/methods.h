// The methods that pods and the warden both serve: what they take and how an exit is written.
#pragma once

#include <string_view>

#include "pod/record.h"
#include "wire/wire.h"

namespace sallyport::pod {

// Null for a method that a pod's door does not serve.
const wire::Schema* find_schema(std::string_view method);
// Whether a use of it on the pod's own door is told to the warden, for its records.
bool is_reported(std::string_view method);

// The stream that {"$stream": number} names; 0: none.
inline std::uint32_t stream_in(wire::Value named) {
  return static_cast<std::uint32_t>(named.get("$stream").as_int().value_or(0));
}

// As shells count: 128 + the signal that ended it.
int exit_code(int wait_status);
std::optional<int> exit_signal(int wait_status);
// One pod as lists show it. Never its token.
void describe(wire::JsonWriter& json, const std::string& name, const Sighting& seen);
// "exit_code", "signal" (a number, if one ended it) and "wait_status".
void write_exit(wire::JsonWriter& json, int wait_status);

}  // namespace sallyport::pod

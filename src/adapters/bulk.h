// Values that may be large: inside a message where they are short text, beside it as a stream otherwise.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/base.h"
#include "ipc/ipc.h"

namespace sallyport::adapters {

// A value of the call's parameters: text, or all that its stream brings, at most `most` bytes.
Task<Result<std::string>> take_value(ipc::Call& call, wire::Value value, std::size_t most);

// {..., "value": text} or {..., "value": {"$stream": n}} with the bytes behind it. `fill` writes the other members.
// `name` is the member's name.
ipc::Reply reply_with_value(ipc::Call& call, std::string_view name, std::string bytes,
                            const std::function<void(wire::JsonWriter&)>& fill);
// The same, always as a stream: numbers are never text.
ipc::Reply reply_with_stream(ipc::Call& call, std::string_view name, std::string bytes,
                             const std::function<void(wire::JsonWriter&)>& fill);

}  // namespace sallyport::adapters

// The pseudo-terminal that a pod owns: its master side.
#pragma once

#include <cstdint>

#include "base/base.h"
#include "base/bytes.h"
#include "wire/json.h"

namespace sallyport::pod {

struct Size {
  int rows = 24, columns = 80;
  bool operator==(const Size&) const = default;
  bool is_sane() const;
};
// {"rows","columns"}; nullopt if absent or out of range.
std::optional<Size> read_size(wire::Value value);
void write_size(wire::JsonWriter& json, const Size& size);

struct Terminal {
  UniqueFd master;  // non-blocking
  UniqueFd slave;   // for the sandbox; closed here as soon as it runs, or the end would never be seen
};
Result<Terminal> open_terminal(const Size& size);
void set_size(int master, const Size& size);
// Whether these keys, typed now, interrupt what runs: the terminal then throws away what was said and not read.
bool are_interrupting(int master, ByteView keys);

}  // namespace sallyport::pod

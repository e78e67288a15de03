// What a person types, on its way to a pod: keys of ours among it, as ssh has them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace sallyport::pod {

enum class KeyCommand : std::uint8_t { none, detach, take, release, help };

// Behind a newline (and at the start) the escape character and one of `.` (detach), `t` (take control), `r`
// (release it), `?` (help) is a command; the escape character twice is itself once; anything else passes. What the
// terminal itself answers to device queries may come in between.
class EscapeKeys {
 public:
  // '\0': there are none.
  explicit EscapeKeys(char escape) : escape_(escape) {}

  // Appends what is meant for the pod and stops at the first command; `used` says how much was read.
  KeyCommand feed(ByteView typed, Bytes& out, std::size_t& used);

 private:
  char escape_;
  bool is_at_line_start_ = true;
  bool has_escape_ = false;
};

}  // namespace sallyport::pod

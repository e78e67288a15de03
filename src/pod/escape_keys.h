// What a person types, on its way to a pod: keys of ours among it, as ssh has them.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace sallyport::pod {

enum class KeyCommand : std::uint8_t { none, detach, take, release, help };

// Behind a newline (and at the start) the escape character and one of `.` (detach), `t` (take control), `r`
// (release it), `?` (help) is a command; the escape character twice is itself once; anything else passes. What the
// terminal itself says may come in between: answers to device queries, what it tells of its focus and of the mouse.
class EscapeKeys {
 public:
  // '\0': there are none.
  explicit EscapeKeys(char escape) : escape_(escape) {}

  // Appends what is meant for the pod and stops at the first command; `used` says how much was read.
  KeyCommand feed(ByteView typed, Bytes& out, std::size_t& used);

 private:
  // False if this byte belongs to no sequence.
  bool take_sequence(char key, Bytes& out);

  char escape_;
  std::string sequence_;  // as far as it came
  bool is_at_line_start_ = true;
  bool has_escape_ = false;
};

}  // namespace sallyport::pod

#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/bytes.h"

namespace sallyport {

void fill_random(std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const ssize_t count = ::getrandom(out.data(), out.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) std::abort();
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

std::string random_hex(std::size_t bytes) {
  std::vector<std::uint8_t> raw(bytes);
  fill_random(raw);
  return to_hex(raw);
}

}  // namespace sallyport

// An agent's stdout, in pieces: what is taken in two steps is what is taken in one.
#include <cstdlib>

#include "containers/output.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  using namespace sallyport::containers;
  const std::string_view text(reinterpret_cast<const char*>(data), size);  // NOLINT(*-reinterpret-cast)
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  LogRing whole, parts;
  whole.append(text);
  const TakenOutput all = take_output(whole, 0, true);
  parts.append(text.substr(0, size / 2));
  const TakenOutput first = take_output(parts, 0, false);
  parts.append(text.substr(size / 2));
  const TakenOutput second = take_output(parts, first.cursor, true);
  demand(all.cursor == size && second.cursor == size);
  demand(first.lines.size() + second.lines.size() == all.lines.size());
  demand(first.malformed + second.malformed == all.malformed);
  return 0;
}

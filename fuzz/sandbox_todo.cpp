// What is left to do of a rebase: a command is found wherever its line stands, and nowhere else.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/bytes.h"
#include "sandbox/git_state.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  const std::string text(as_text({data, size}));
  const bool has = sandbox::has_command(text);
  demand(sandbox::has_command(text + "\nx a") && sandbox::has_command("exec a\n" + text));
  demand(sandbox::has_command("pick 1\n" + text + "\n# x a") == has);
  bool has_line = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    has_line = has_line || sandbox::has_command(text.substr(at, end - at));
    at = end + 1;
  }
  demand(has_line == has);
  return 0;
}

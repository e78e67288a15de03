// git's configuration: what is left once the harmful has been taken out is understood, and has nothing harmful.
#include <cstdlib>

#include "base/bytes.h"
#include "sandbox/git_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  const std::string_view text = as_text({data, size});
  const sandbox::GitConfig config = sandbox::read_git_config(text);
  for (const sandbox::GitSetting& setting : config.settings) {
    demand(setting.begin < setting.end && setting.end <= text.size());
  }
  if (const auto rest = sandbox::without_harmful(text)) {
    const sandbox::GitConfig left = sandbox::read_git_config(*rest);
    demand(left.is_understood);
    for (const sandbox::GitSetting& setting : left.settings) demand(sandbox::is_harmless(setting));
  } else {
    demand(config.is_understood);
  }
  demand(!sandbox::without_harmful(text, sandbox::harmful_settings(text)) || !config.is_understood);
  return 0;
}

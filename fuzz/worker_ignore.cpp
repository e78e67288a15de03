// Globs and .gitignore files: any bytes compile, and matching ends with the same answer each time.
#include <cstdlib>

#include "base/bytes.h"
#include "worker/glob.h"
#include "worker/ignore.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  using namespace sallyport::worker;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  // The first line is a path, the rest are rules.
  const std::string_view input = as_text({data, std::min<std::size_t>(size, 4096)});
  const std::size_t newline = std::min(input.find('\n'), input.size());
  const std::string_view path = input.substr(0, newline);
  const std::string_view rules = input.substr(std::min(newline + 1, input.size()));
  const std::string_view name = path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);

  const Stop never;
  const IgnoreRules parsed = IgnoreRules::parse(rules);
  const Verdict as_file = parsed.judge(path, name, false, never);
  demand(parsed.judge(path, name, false, never) == as_file);
  const Verdict as_directory = parsed.judge(path, name, true, never);
  demand(as_directory == parsed.judge(path, name, true, never));
  // Only rules make verdicts.
  if (parsed.empty()) demand(as_file == Verdict::none && as_directory == Verdict::none);

  // Text without signs matches itself and nothing else.
  const Glob glob(rules);
  const bool is_plain = rules.find_first_of("*?[\\") == std::string_view::npos;
  if (is_plain) demand(glob.matches(path) == (path == rules));
  if (glob.matches(path)) demand(path.starts_with(glob.literal_prefix()));
  if (const auto pattern = PathPattern::compile(rules, PathPattern::Use::glob);
      pattern && pattern->matches(path, name)) {
    // A match lies in a directory that the walk would have entered.
    demand(pattern->can_match_below(path.substr(0, path.size() - name.size())));
  }
  return 0;
}

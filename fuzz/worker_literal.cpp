// Regular expressions: any bytes are compiled or refused, and the prefilter never loses a match that
// RE2 alone would find. A vector scan equals a plain one.
#include <cstdlib>
#include <string>

#include "base/bytes.h"
#include "worker/pattern.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  using namespace sallyport::worker;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  // [flags][length of the pattern] pattern text
  if (size < 2 || size > 2048) return 0;
  const std::string_view input = as_text({data + 2, size - 2});
  const std::string_view regex = input.substr(0, data[1] % 32);
  const std::string text = std::string(input.substr(regex.size())) + std::string(kScanPadding, '\0');
  const char* const begin = text.data();
  const char* const end = begin + (text.size() - kScanPadding);

  PatternOptions options;
  options.is_fixed = (data[0] & 1) != 0;
  options.is_word = (data[0] & 2) != 0;
  if ((data[0] & 4) != 0) options.letter_case = PatternOptions::Case::insensitive;
  if ((data[0] & 8) != 0) options.letter_case = PatternOptions::Case::smart;
  const auto pattern = Pattern::compile(regex, options);
  if (!pattern) return 0;
  const Stop never;
  Effort effort{never};
  const auto found = pattern->find_line(begin, end, effort);
  if (found) {
    demand(found->begin >= begin && found->end <= end && found->begin <= found->end);
    demand(std::string_view(found->begin, static_cast<std::size_t>(found->end - found->begin)).find('\n') ==
           std::string_view::npos);
  }
  // The same expression behind a group that hides its literals: RE2 alone.
  if (options.is_fixed || regex.find('(') != std::string_view::npos || regex.find('\\') != std::string_view::npos ||
      regex.find('[') != std::string_view::npos) {
    return 0;
  }
  const auto alone = Pattern::compile("(?:" + std::string(regex) + "|[^\\x00-\\x{10FFFF}])", options);
  if (!alone) return 0;
  const auto expected = alone->find_line(begin, end, effort);
  demand(found.has_value() == expected.has_value());
  if (found) demand(found->begin == expected->begin);

  LiteralScanner scanner{std::string(regex), options.letter_case == PatternOptions::Case::insensitive};
  const char* const fast = scanner.find(begin, end);
  scanner.use(LiteralScanner::Engine::sse2);
  demand(scanner.find(begin, end) == fast);
  scanner.use(LiteralScanner::Engine::plain);
  demand(scanner.find(begin, end) == fast);
  return 0;
}

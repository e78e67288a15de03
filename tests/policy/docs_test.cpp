// The TOML in the documentation is what the parser takes.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "policy/policy_file.h"

namespace sallyport::policy {
namespace {

class Documented : public ::testing::TestWithParam<const char*> {};

TEST_P(Documented, ExamplesLoad) {
  std::ifstream file(std::string(DOCS "/") + GetParam());
  const std::string text(std::istreambuf_iterator<char>(file), {});
  constexpr std::string_view kBegin = "```toml\n", kEnd = "```";
  int blocks = 0;
  for (std::size_t at = text.find(kBegin); at != std::string::npos; at = text.find(kBegin, at)) {
    at += kBegin.size();
    const std::size_t end = text.find(kEnd, at);
    ASSERT_NE(end, std::string::npos);
    const auto parsed = parse_policy_file(std::string_view(text).substr(at, end - at), GetParam());
    EXPECT_TRUE(parsed) << parsed.error().message;
    ++blocks;
    at = end;
  }
  EXPECT_GT(blocks, 0);
}

INSTANTIATE_TEST_SUITE_P(Pages, Documented,
                         ::testing::Values("policy.md", "approvals.md", "profiles.md", "configuration.md",
                                           "../examples/deputy/README.md"));

}  // namespace
}  // namespace sallyport::policy

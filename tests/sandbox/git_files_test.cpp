// git's formats, read without git.
#include "sandbox/git_files.h"

#include <gtest/gtest.h>

namespace sallyport::sandbox {
namespace {

TEST(GitSettings, ReadsSectionsSubsectionsContinuationsAndComments) {
  const auto settings = git_settings(
      "[core]\n\tbare = false ; no\n[remote \"origin\"]\n url = \"a b\"\n[alias] x = !evil\n[core]\nfsmonitor = "
      "a\\\nb\nignorecase\n");
  ASSERT_EQ(settings.size(), 5U);
  EXPECT_EQ(settings[0].key, "core.bare");
  EXPECT_EQ(settings[0].value, "false");
  EXPECT_EQ(settings[1].key, "remote.*.url");
  EXPECT_EQ(settings[1].value, "a b");
  EXPECT_EQ(settings[2].key, "alias.x");
  EXPECT_EQ(settings[3].value, "ab");
  EXPECT_EQ(settings[4].key, "core.ignorecase");
}

TEST(GitSettings, TakesOutOnlyWhatIsHarmful) {
  const auto kept =
      without_harmful("[core]\n\tbare = false\n\tfsMonitor = a\\\n  b\n[alias] x = !evil\n[user]\n\tname = n\n");
  ASSERT_TRUE(kept);
  EXPECT_EQ(*kept, "[core]\n\tbare = false\n[alias]\n[user]\n\tname = n\n");
  EXPECT_FALSE(without_harmful("[core]\n\tbare = true\n"));
}

TEST(GitSettings, TreatsARemoteThatNamesAProgramAsHarmful) {
  EXPECT_FALSE(is_harmless({"remote.*.url", "ext::sh -c evil", 0}));
  EXPECT_FALSE(is_harmless({"remote.*.url", "--upload-pack=evil", 0}));
  EXPECT_TRUE(is_harmless({"remote.*.url", "https://example.org/x.git", 0}));
}

}  // namespace
}  // namespace sallyport::sandbox

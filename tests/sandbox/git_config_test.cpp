// git's configuration, read as git reads it.
#include "sandbox/git_config.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

#include "fixture.h"

namespace sallyport::sandbox {
namespace {

TEST(GitConfig, ReadsSectionsSubsectionsContinuationsAndComments) {
  const auto settings = read_git_config(
                            "[core]\n\tbare = false ; no\n[remote \"origin\"]\n url = \"a b\"\n[alias] x = "
                            "!evil\n[core]\nfsmonitor = a\\\nb\nignorecase\n")
                            .settings;
  ASSERT_EQ(settings.size(), 5U);
  EXPECT_EQ(settings[0].key, "core.bare");
  EXPECT_EQ(settings[0].value, "false");
  EXPECT_EQ(settings[1].key, "remote.*.url");
  EXPECT_EQ(settings[1].value, "a b");
  EXPECT_EQ(settings[2].key, "alias.x");
  EXPECT_EQ(settings[3].value, "ab");
  EXPECT_EQ(settings[4].key, "core.ignorecase");
}

TEST(GitConfig, TakesOutOnlyWhatIsHarmful) {
  const auto kept =
      without_harmful("[core]\n\tbare = false\n\tfsMonitor = a\\\n  b\n[alias] x = !evil\n[user]\n\tname = n\n");
  ASSERT_TRUE(kept);
  EXPECT_EQ(*kept, "[core]\n\tbare = false\n[alias]\n[user]\n\tname = n\n");
  EXPECT_FALSE(without_harmful("[core]\n\tbare = true\n"));
}

TEST(GitConfig, LeavesTheUsersOwnSettings) {
  const std::string config = "[alias]\n\tx = !ls\n\ty = !evil\n";
  EXPECT_EQ(without_harmful(config, harmful_settings("[alias] x = !ls")), "[alias]\n\tx = !ls\n");
  EXPECT_FALSE(without_harmful(config, harmful_settings(config)));
}

TEST(GitConfig, TreatsARemoteThatNamesAProgramAsHarmful) {
  EXPECT_FALSE(is_harmless({"remote.*.url", "ext::sh -c evil"}));
  EXPECT_FALSE(is_harmless({"branch.*.remote", "ext::sh -c evil"}));
  EXPECT_FALSE(is_harmless({"remote.*.url", "--upload-pack=evil"}));
  EXPECT_TRUE(is_harmless({"remote.*.url", "https://example.org/x.git"}));
}

// A command that stands where only git sees it.
TEST(GitConfig, AttackWithACommentThatSeemsToGoOn) {
  EXPECT_EQ(without_harmful("[user]\nname = x # \\\n[core]fsmonitor = evil\n"), "[user]\nname = x # \\\n[core]\n");
}
TEST(GitConfig, AttackWithTwoBackslashesAtTheEnd) {
  EXPECT_EQ(without_harmful("[user]\nname = x\\\\\n[core]fsmonitor = evil\n"), "[user]\nname = x\\\\\n[core]\n");
}
TEST(GitConfig, AttackWithAZeroByteThatEndsAName) {
  const std::string config("[remote \"a.uploadpack\0x\"]\nurl = evil\n", 37);
  EXPECT_EQ(without_harmful(config), "");
}
TEST(GitConfig, AttackWithABracketInASubsection) {
  EXPECT_NE(without_harmful("[remote \"]\\n\"] url = x\n[core]fsmonitor = evil\n"), std::nullopt);
}
TEST(GitConfig, LeavesNothingOfWhatGitRefuses) {
  for (const char* config :
       {"[core\n", "[core]\nbare = \"x\n", "[core]\nbare = \\x\n", "[core]\n1 = 2\n", "[core] a b"}) {
    EXPECT_EQ(without_harmful(config), "") << config;
  }
}

class GitItself : public SandboxTest {
 protected:
  // Names and values as git lists them, subsections shown as *; nothing if it refuses the file.
  std::optional<std::vector<std::string>> listed(const std::string& config) {
    const std::string path = base_ + "/config";
    std::ofstream(path, std::ios::binary) << config;
    FILE* git = ::popen(("git config --file '" + path + "' --list -z 2>/dev/null").c_str(), "r");
    std::string output;
    char buffer[4096];
    for (std::size_t length = 0; (length = std::fread(buffer, 1, sizeof(buffer), git)) > 0;)
      output.append(buffer, length);
    if (::pclose(git) != 0) return std::nullopt;
    std::vector<std::string> all;
    std::istringstream entries(output);
    for (std::string entry; std::getline(entries, entry, '\0');) {
      const std::size_t end = std::min(entry.find('\n'), entry.size());
      const std::string value = end == entry.size() ? "true" : entry.substr(end + 1);
      // A setting before the first section has no dot.
      const std::string name = entry.find('.') < end ? entry.substr(0, end) : "." + entry.substr(0, end);
      const std::size_t first = name.find('.'), last = name.rfind('.');
      all.push_back(plain(name.substr(0, first) + (first == last ? "" : ".*") + name.substr(last) + "=" + value));
    }
    return all;
  }
  // Versions of git differ in what becomes of tabs inside a value.
  static std::string plain(std::string text) {
    for (char& c : text) c = c == '\t' || c == '\r' ? ' ' : c;
    return text;
  }
};

// Whatever git sees, we must see; what git refuses, we must not understand.
TEST_F(GitItself, SeesTheSameInRandomConfigurations) {
  const std::vector<std::string> pieces = {"[core]",
                                           "[remote \"a\"]",
                                           "[a.b]",
                                           "[x \"q\\\"]\"]",
                                           "[",
                                           "]",
                                           "\"",
                                           "\\",
                                           "\\\\",
                                           "\\\"",
                                           "\\n",
                                           "\n",
                                           "\n",
                                           "\n",
                                           "\r\n",
                                           "\r",
                                           "#",
                                           ";",
                                           " # ",
                                           "\t",
                                           " ",
                                           "=",
                                           " = ",
                                           "fsmonitor",
                                           "url=x",
                                           "name = y",
                                           "a",
                                           "1",
                                           "-",
                                           "true",
                                           "\xef",
                                           "\v",
                                           "[core] x=1",
                                           "\\\n",
                                           "\\\r\n",
                                           "\\t",
                                           "k = \"v w\" z",
                                           ".",
                                           "[s ]",
                                           "[s \"\"]"};
  std::mt19937 random(20260101);  // NOLINT(*-msc51-cpp): the same every time
  std::size_t understood = 0;
  for (int round = 0; round < 400; ++round) {
    std::string config = random() % 8 == 0 ? "\xef\xbb\xbf" : "";
    if (random() % 4 != 0) config += "[core]\n";
    for (std::size_t count = random() % 14; count > 0; --count) config += pieces[random() % pieces.size()];
    const auto theirs = listed(config);
    const GitConfig ours = read_git_config(config);
    ASSERT_EQ(ours.is_understood, theirs.has_value()) << config;
    if (!theirs) continue;
    ++understood;
    std::vector<std::string> pairs;
    for (const GitSetting& setting : ours.settings) pairs.push_back(plain(setting.key + "=" + setting.value));
    ASSERT_EQ(pairs, *theirs) << config;
    // And what is left has nothing harmful for git either.
    const auto rest = listed(without_harmful(config).value_or(config));
    ASSERT_TRUE(rest) << config;
    for (const std::string& pair : *rest) {
      const std::size_t equals = pair.find('=');
      EXPECT_TRUE(is_harmless({pair.substr(0, equals), pair.substr(equals + 1)})) << pair << " left of " << config;
    }
  }
  EXPECT_GT(understood, 60U);
}

TEST(GitConfig, KeepsWhatASparseOrANewerRepositoryNeeds) {
  EXPECT_FALSE(without_harmful("[core]\nsparseCheckout = true\n[extensions]\nrefStorage = reftable\n[pull]\nrebase\n"));
  EXPECT_EQ(without_harmful("[extensions]\nrefStorage = files:///elsewhere\n"), "[extensions]\n");
}

}  // namespace
}  // namespace sallyport::sandbox

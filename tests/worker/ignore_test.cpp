#include "worker/ignore.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>

#include "worker/sandbox_dir.h"

namespace sallyport::worker {
namespace {

bool is_ignored(std::string_view rules, std::string_view path, bool is_directory = false) {
  const std::string_view name = path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
  return IgnoreRules::parse(rules).judge(path, name, is_directory, Stop()) == Verdict::ignored;
}

TEST(Ignore, TheLastMatchingRuleWins) {
  EXPECT_FALSE(is_ignored("*.o\n!keep.o\n", "keep.o"));
  EXPECT_TRUE(is_ignored("!keep.o\n*.o\n", "keep.o"));
}

TEST(Ignore, ASlashAnchorsARule) {
  EXPECT_TRUE(is_ignored("/a", "a"));
  EXPECT_FALSE(is_ignored("/a", "b/a"));
  EXPECT_FALSE(is_ignored("a/b", "x/a/b"));
  EXPECT_TRUE(is_ignored("**/a/b", "x/a/b"));
}

TEST(Ignore, ATrailingSlashMeansDirectoriesOnly) {
  EXPECT_FALSE(is_ignored("build/", "build"));
  EXPECT_TRUE(is_ignored("build/", "x/build", true));
}

TEST(Ignore, StarsBehindALiteralBeginningStandAtABeginning) {
  EXPECT_TRUE(is_ignored("b**/a", "b/x/a"));
  EXPECT_TRUE(is_ignored("b**/a", "ba"));
}

TEST(Ignore, CommentsSpacesEscapesBomAndCrlf) {
  EXPECT_FALSE(is_ignored("#a", "#a"));
  EXPECT_TRUE(is_ignored("\\#a", "#a"));
  EXPECT_TRUE(is_ignored("\\!a", "!a"));
  EXPECT_TRUE(is_ignored("a   ", "a"));
  EXPECT_TRUE(is_ignored("a\\ ", "a "));
  EXPECT_TRUE(
      is_ignored("\xef\xbb\xbf"
                 "a\r\nb\r\n",
                 "a"));
}

TEST(Ignore, ManyRulesAreLeftWhenItIsTimeToStop) {
  std::string text = "*x*y\n";
  for (int i = 0; i < 10'000; ++i) text += "*a*a*b" + std::to_string(i) + "\n";
  const IgnoreRules rules = IgnoreRules::parse(text);
  const std::string name = "x" + std::string(100, 'a') + "y";
  Stop stop;
  EXPECT_EQ(rules.judge(name, name, false, stop), Verdict::ignored);
  stop.cancel();
  EXPECT_EQ(rules.judge(name, name, false, stop), Verdict::none);
}

// git is the judge: random rules in random directories over a random tree. SALLYPORT_LONG=1 runs many more.
TEST(Ignore, AgreesWithGitOnGeneratedTrees) {
  if (std::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no git";
  const std::vector<std::string> names = {"a",       "b",   "ab", "a.o", "b.o", "foo",
                                          "foo.txt", "bar", ".x", "a b", "[a]", "x#y"};
  const std::vector<std::string> atoms = {"a",           "b",      "*",     "**",  "?",   "[ab]",  "[!a]", "*.o",
                                          "foo",         ".*",     "a*",    "*b",  "\\a", "\\[a]", "f?o",  "***",
                                          "[[:alpha:]]", "[a-f]*", "{a,b}", "**a", "b**", "*.t*t"};
  std::mt19937 random(20240601);
  const auto pick = [&](const auto& from) { return from[random() % from.size()]; };
  std::size_t compared = 0;
  const int rounds = std::getenv("SALLYPORT_LONG") != nullptr ? 1000 : 60;
  for (int round = 0; round < rounds; ++round) {
    SandboxDir box;
    ASSERT_EQ(std::system(("git init -q " + box.root()).c_str()), 0);
    std::set<std::string> files;
    std::set<std::string> directories = {""};
    for (int i = 0; i < 40; ++i) {
      std::string path;
      for (std::size_t depth = random() % 4; depth > 0; --depth) {
        if (files.contains(path + pick(names))) break;
        path += pick(names) + "/";
        if (files.contains(path.substr(0, path.size() - 1))) break;
      }
      const std::string file = path + pick(names);
      bool is_clash = directories.contains(file + "/");
      for (std::size_t at = file.find('/'); at != std::string::npos; at = file.find('/', at + 1))
        is_clash |= files.contains(file.substr(0, at));
      if (is_clash) continue;
      for (std::size_t at = file.find('/'); at != std::string::npos; at = file.find('/', at + 1))
        directories.insert(file.substr(0, at + 1));
      files.insert(file);
    }
    for (const std::string& file : files) box.write(file, "");
    std::map<std::string, IgnoreRules> rules;
    for (const std::string& directory : directories) {
      if (!directory.empty() && random() % 3 != 0) continue;
      std::string text;
      for (std::size_t i = 1 + random() % 5; i > 0; --i) {
        if (random() % 4 == 0) text += "!";
        if (random() % 5 == 0) text += "/";
        text += pick(atoms);
        while (random() % 3 == 0) text += "/" + pick(atoms);
        if (random() % 4 == 0) text += "/";
        text += random() % 10 == 0 ? "  \n" : random() % 10 == 0 ? "\r\n" : "\n";
      }
      box.write(directory + ".gitignore", text);
      rules.emplace(directory, IgnoreRules::parse(text));
    }
    // Ours, as a walk does it: an ignored directory is not entered.
    std::set<std::string> ours;
    const auto judge = [&](const std::string& path, bool is_directory) {
      for (std::string at = path;;) {
        const std::size_t slash = at.rfind('/', at.size() - 1);
        at = slash == std::string::npos ? "" : at.substr(0, slash + 1);
        const std::string name = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
        if (const auto found = rules.find(at); found != rules.end()) {
          const Verdict verdict =
              found->second.judge(std::string_view(path).substr(at.size()), name, is_directory, Stop());
          if (verdict != Verdict::none) return verdict == Verdict::ignored;
        }
        if (at.empty()) return false;
        at.pop_back();
      }
    };
    for (const std::string& file : files) {
      bool is_hidden = judge(file, false);
      for (std::size_t at = file.find('/'); at != std::string::npos && !is_hidden; at = file.find('/', at + 1))
        is_hidden = judge(file.substr(0, at), true);
      if (is_hidden) ours.insert(file);
    }
    std::string input;
    for (const std::string& file : files) input += file + '\n';
    const std::string scratch = box.outside();
    box.write_outside("in", input);
    std::string command = "cd ";
    command.append(box.root()).append(" && git -c core.quotePath=false -c core.excludesFile=/dev/null check-ignore");
    command.append(" --no-index --stdin < ")
        .append(scratch)
        .append("/in > ")
        .append(scratch)
        .append("/out 2>/dev/null");
    const int status = std::system(command.c_str());
    ASSERT_TRUE(WEXITSTATUS(status) <= 1);
    std::set<std::string> theirs;
    std::istringstream out(box.read_outside("out"));
    for (std::string line; std::getline(out, line);) theirs.insert(line);
    std::string all_rules;
    for (const auto& [directory, unused] : rules)
      all_rules.append("-- ").append(directory).append("\n").append(box.read(directory + ".gitignore"));
    ASSERT_EQ(ours, theirs) << all_rules;
    compared += files.size();
  }
  EXPECT_GT(compared, 1000U);
}

}  // namespace
}  // namespace sallyport::worker

// ripgrep is the judge: the same lines, columns and context, over random trees, patterns and options.
#include <gtest/gtest.h>
#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <random>
#include <set>
#include <sstream>

#include "worker/grep.h"
#include "worker/sandbox_dir.h"

namespace sallyport::worker {
namespace {

using Lines = std::multiset<std::string>;
using Case = PatternOptions::Case;

GrepRequest request(std::string pattern) {
  GrepRequest grep_request;
  grep_request.pattern = std::move(pattern);
  grep_request.limit = 1'000'000;
  grep_request.max_bytes = SIZE_MAX;
  grep_request.search.line_bytes = 1 << 20;
  return grep_request;
}

// As ripgrep prints them: a hit of several lines is that many lines.
Lines ours(const SandboxDir& box, const GrepRequest& grep_request, bool with_column) {
  const auto answer = grep(box.open(), grep_request, Stop());
  if (!answer) return {"error: " + answer.error().describe()};
  Lines all;
  for (const GrepFile& file : answer->files) {
    for (const Hit& hit : file.found.hits) {
      const char* const mark = hit.is_context() ? "-" : ":";
      const std::string column = with_column && !hit.is_context() ? std::to_string(hit.column) + ":" : "";
      std::istringstream text(hit.text + "\n");
      std::uint64_t number = hit.line;
      for (std::string line; std::getline(text, line); ++number)
        all.insert(file.path + mark + std::to_string(number) + mark + column + line);
    }
  }
  return all;
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What ripgrep is asked for the same. `$` in our patterns also stands before CRLF: the trees have none.
std::string flags(const GrepRequest& asked, bool with_column) {
  std::string text = with_column ? "--column " : "";
  const auto add = [&](bool is_set, const char* flag) { text += is_set ? std::string(flag) + " " : ""; };
  add(asked.options.is_fixed, "-F");
  add(asked.options.is_word, "-w");
  add(asked.options.is_multiline, "-U");
  add(asked.options.letter_case == Case::insensitive, "-i");
  add(asked.options.letter_case == Case::smart, "-S");
  add(asked.search.only_matching, "-o");
  add(asked.walk.with_hidden, "--hidden");
  add(asked.walk.with_ignored, "--no-ignore");
  if (asked.search.before > 0) text += "-B" + std::to_string(asked.search.before) + " ";
  if (asked.search.after > 0) text += "-A" + std::to_string(asked.search.after) + " ";
  // Held at the top by a slash there, by a dot here.
  const auto glob = [](const std::string& own) { return own.starts_with("./") ? own.substr(1) : own; };
  for (const std::string& include : asked.include) text += "-g " + quoted(glob(include)) + " ";
  for (const std::string& exclude : asked.exclude) text += "-g " + quoted("!" + glob(exclude)) + " ";
  return text + "-e " + quoted(asked.pattern);
}

Lines theirs(const SandboxDir& box, const std::string& flags) {
  const std::string command = "cd " + box.root() + " && rg --no-config --no-require-git --no-heading -n " + flags +
                              " . > " + box.outside() + "/out";
  if (WEXITSTATUS(std::system(command.c_str())) > 1) return {"ripgrep failed"};
  Lines all;
  std::istringstream out(box.read_outside("out"));
  for (std::string line; std::getline(out, line);) {
    if (line != "--") all.insert(line.substr(2));  // ./
  }
  return all;
}

Lines without(const Lines& all, const Lines& others) {
  Lines left;
  std::set_difference(all.begin(), all.end(), others.begin(), others.end(), std::inserter(left, left.end()));
  return left;
}

// The number of lines both found; the tests fail where they differ.
std::size_t compare(const SandboxDir& box, const GrepRequest& asked) {
  // ripgrep 13 has places for -w that are no words (the `oo` of foo for `\\S|\\S+`); their lines are right.
  const bool with_column = !asked.options.is_multiline && !asked.options.is_word;
  const std::string how = flags(asked, with_column);
  Lines mine = ours(box, asked, with_column);
  Lines judge = theirs(box, how);
  if (asked.search.only_matching) {
    // To ripgrep there is an empty match also between the bytes of a character.
    const auto is_empty = [](const std::string& line) {
      return line.ends_with(':') && std::isdigit(static_cast<unsigned char>(line[line.size() - 2])) != 0;
    };
    std::erase_if(mine, is_empty);
    std::erase_if(judge, is_empty);
  }
  EXPECT_EQ(without(mine, judge), Lines()) << "not found by rg " << how;
  EXPECT_EQ(without(judge, mine), Lines()) << "only found by rg " << how;
  return mine.size();
}

template <typename T>
const T& one_of(std::mt19937& random, const std::vector<T>& all) {
  return all[random() % all.size()];
}

// Lines of a few words that patterns share parts of; some files with a byte-order mark, some in UTF-16.
void fill(const SandboxDir& box, std::mt19937& random, int files, bool ends_open) {
  const std::vector<std::string> words = {"alpha", "Beta",     "gamma(", "foo_bar", "x->y",         "\xc3\xa9t\xc3\xa9",
                                          "",      "return 0", "foobar", "TODO",    "::",           "\xc3\x89TAT",
                                          "foo",   "FOO",      "xxx",    "std::x",  "\xe2\x80\x94", "fo\xcc\x81o"};
  const std::vector<std::string> extensions = {".c", ".h", ".o", ".txt", ""};
  for (int i = 0; i < files; ++i) {
    std::string text;
    for (std::size_t j = random() % 20; j > 0; --j) {
      for (std::size_t k = random() % 5; k > 0; --k) text += one_of(random, words) + (random() % 4 == 0 ? "" : " ");
      text += "\n";
    }
    if (ends_open && random() % 3 == 0 && !text.empty()) text.pop_back();
    const auto form = random() % 10;
    if (form == 0) text.insert(0, "\xef\xbb\xbf");
    if (form == 1) {
      std::string wide = "\xff\xfe";
      for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x80) wide.append(1, c).append(1, '\0');
      }
      text = wide;
    }
    box.write("d" + std::to_string(random() % 4) + "/" + (random() % 12 == 0 ? "." : "") + "e" +
                  std::to_string(random() % 3) + "/f" + std::to_string(i) + one_of(random, extensions),
              text);
  }
  box.write(".gitignore", "*.o\n/d3/\n!d4/e1/*.o\n");
  box.write("d1/.gitignore", "e2\nf*0.c\n");
}

TEST(Ripgrep, AgreesOnWhatIsAskedOften) {
  if (std::system("command -v rg >/dev/null") != 0) GTEST_SKIP() << "no ripgrep";
  std::mt19937 random(99);
  SandboxDir box;
  fill(box, random, 200, false);
  const auto check = [&](const GrepRequest& asked) { EXPECT_GT(compare(box, asked), 0U) << asked.pattern; };
  for (const char* pattern : {"alpha", "^foo\\w* .*return", "[a-z]+\\(|x->.", "foo_bar $", "^foo", "x*"}) {
    GrepRequest asked = request(pattern);
    check(asked);
    asked.search.before = 2;
    asked.search.after = 3;
    check(asked);
    asked.options.is_multiline = true;
    check(asked);
    asked.search.only_matching = true;
    check(asked);
  }
  for (const char* pattern : {"foo_bar|alpha", "foo|foobar", "::", "gamma\\(", "\xc3\xa9t\xc3\xa9", "foo"}) {
    GrepRequest asked = request(pattern);
    asked.options.is_word = true;
    check(asked);
    asked.walk.with_hidden = true;
    asked.walk.with_ignored = true;
    asked.search.only_matching = true;
    check(asked);
  }
  for (const char* pattern : {"\\Soo", "\xc3\x89tat", "\xc3\xa9tat", "todo", "TODO", "[A-B]eta"}) {
    GrepRequest asked = request(pattern);
    asked.options.letter_case = Case::smart;
    compare(box, asked);
    asked.options.letter_case = Case::insensitive;
    check(asked);
  }
  GrepRequest asked = request("gamma(");
  asked.options.is_fixed = true;
  check(asked);
  asked.options.is_word = true;
  check(asked);
  asked = request(" \\n[a-z]+|foo");
  asked.options.is_multiline = true;
  check(asked);
}

std::string random_pattern(std::mt19937& random, bool is_multiline) {
  std::vector<std::string> atoms = {
      "foo", "bar", "o",     "x",   ".", "[a-f]",    "[^a ]",    "(?:foo|al)",          "(e|a)",
      "::",  " ",   "alpha", "\\(", "-", "\xc3\xa9", "\xc3\x89", "[\xc3\xa0-\xc3\xbf]", "T",
      "_",   "\\S", "[A-F]", "fo"};
  if (is_multiline) atoms.insert(atoms.end(), {"\\n", "\\s", "[^x]"});
  const std::vector<std::string> repeats = {"", "", "", "", "*", "+", "?", "{1,2}", "*?"};
  // With -U ripgrep 13 takes the place behind a match for the beginning of a line.
  std::string pattern = random() % 8 == 0 && !is_multiline ? "^" : "";
  for (std::size_t i = 1 + random() % 3; i > 0; --i) {
    pattern += one_of(random, atoms) + one_of(random, repeats);
    if (random() % 8 == 0 && i > 1) pattern += "|";
  }
  return pattern + (random() % 8 == 0 ? "$" : "");
}

TEST(Ripgrep, AgreesOnRandomPatternsOptionsAndTrees) {
  if (std::system("command -v rg >/dev/null") != 0) GTEST_SKIP() << "no ripgrep";
  std::size_t found = 0;
  for (unsigned seed = 0; seed < 4 && !::testing::Test::HasFailure(); ++seed) {
    std::mt19937 random(seed);
    SandboxDir box;
    // Of an empty match at the end of a file without a newline ripgrep tells no column, or the whole line for -o.
    const bool ends_open = seed % 2 == 0;
    fill(box, random, 40, ends_open);
    for (int round = 0; round < 30; ++round) {
      const bool is_multiline = random() % 3 == 0;
      std::string pattern = random_pattern(random, is_multiline);
      while (ends_open && re2::RE2::PartialMatch("", pattern)) pattern = random_pattern(random, is_multiline);
      GrepRequest asked = request(pattern);
      asked.options.is_multiline = is_multiline;
      asked.options.is_word = !is_multiline && random() % 4 == 0;
      asked.options.letter_case = one_of(random, std::vector<Case>{Case::sensitive, Case::insensitive, Case::smart});
      asked.search.only_matching = !asked.options.is_word && !is_multiline && random() % 4 == 0;
      asked.search.before = static_cast<std::uint32_t>(random() % 6 / 3 * (random() % 4));
      asked.search.after = static_cast<std::uint32_t>(random() % 6 / 3 * (random() % 4));
      asked.walk.with_hidden = random() % 2 == 0;
      asked.walk.with_ignored = random() % 2 == 0;
      const std::vector<std::string> globs = {"d1", "e1", "*.c", "d*/e1", "**/e2/**", "./d2", "d1/*", "f1*", "*.{c,h}"};
      if (random() % 3 == 0) asked.exclude = {one_of(random, globs)};
      if (random() % 6 == 0) asked.exclude = {"e2/"};
      if (random() % 4 == 0) {
        // To ripgrep an include is stronger than ignore rules and dots; to us it is not.
        asked.walk.with_hidden = asked.walk.with_ignored = true;
        asked.include = {one_of(random, globs)};
      }
      found += compare(box, asked);
    }
  }
  EXPECT_GT(found, 1000U);
}

}  // namespace
}  // namespace sallyport::worker

#include "worker/pattern.h"

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <random>

#include "worker/literal.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

std::string padded(std::string_view text) { return std::string(text) + std::string(kScanPadding, '\n'); }

std::ptrdiff_t find(const LiteralScanner& scanner, std::string_view text) {
  const std::string buffer = padded(text);
  const char* found = scanner.find(buffer.data(), buffer.data() + text.size());
  return found == nullptr ? -1 : found - buffer.data();
}

TEST(LiteralScanner, EveryEngineAgreesWithStringFind) {
  std::mt19937 random(3);
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    std::string literal;
    for (std::size_t i = random() % 200; i > 0; --i) text += static_cast<char>('a' + random() % 3);
    for (std::size_t i = 1 + random() % 5; i > 0; --i) literal += static_cast<char>('a' + random() % 3);
    const std::size_t expected = text.find(literal);
    for (const auto engine :
         {LiteralScanner::Engine::best, LiteralScanner::Engine::sse2, LiteralScanner::Engine::plain}) {
      LiteralScanner scanner(literal, false);
      scanner.use(engine);
      ASSERT_EQ(find(scanner, text), expected == std::string::npos ? -1 : static_cast<std::ptrdiff_t>(expected))
          << text << " " << literal;
    }
  }
}

TEST(LiteralScanner, NeverFindsAMatchThatReachesIntoThePadding) {
  const LiteralScanner scanner("\n\n", false);
  EXPECT_EQ(find(scanner, "a\n"), -1);
  EXPECT_EQ(find(scanner, ""), -1);
}

TEST(LiteralScanner, IgnoresAsciiCaseOnly) {
  const LiteralScanner scanner("Needle[", true);
  EXPECT_EQ(find(scanner, "xx nEEDLE[ "), 3);
  EXPECT_EQ(find(scanner, "xx nEEDLE{ "), -1);
}

TEST(Scan, CountsNewlinesAndEscapesOfEveryByte) {
  std::mt19937 random(8);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    std::size_t newlines = 0;
    std::size_t escaped = 0;
    for (std::size_t i = random() % 300; i > 0; --i) {
      text += static_cast<char>(random() % 3 == 0 ? random() % 256 : random() % 40);
      newlines += text.back() == '\n' ? 1 : 0;
      escaped += escaped_cost(text.back());
    }
    ASSERT_EQ(count_newlines(text), newlines);
    ASSERT_EQ(escaped_size(text), escaped);
  }
}

TEST(RequiredLiteral, IsTheLongestRunThatMustOccur) {
  const auto literal = [](std::string_view regex) { return required_literal(regex, false).text; };
  EXPECT_EQ(literal("foobar"), "foobar");
  EXPECT_EQ(literal("foo.*barbaz"), "barbaz");
  EXPECT_EQ(literal("ab?cde"), "cde");
  EXPECT_EQ(literal("abc+de"), "abc");
  EXPECT_EQ(literal("abc{2,3}"), "abc");
  EXPECT_EQ(literal("(foo)(?:bar)"), "foobar");
  EXPECT_EQ(literal("(foo)*bar"), "bar");
  EXPECT_EQ(literal("x(foo|bar)yz"), "yz");
  EXPECT_EQ(literal("foo|bar"), "");
  EXPECT_EQ(literal("\\bfoo\\.h$"), "foo.h");
  EXPECT_EQ(literal("[a-z]+_t\\("), "_t(");
  EXPECT_EQ(literal("(?i)foo"), "");
  EXPECT_EQ(literal("\\Qa.b\\E"), "");
  EXPECT_EQ(literal("caf\xc3\xa9?s"), "caf");
}

TEST(RequiredLiteral, KnowsWhenItIsAllThereIs) {
  EXPECT_TRUE(required_literal("foo\\.bar", false).is_whole);
  EXPECT_FALSE(required_literal("^foo", false).is_whole);
  EXPECT_FALSE(required_literal("fo+", false).is_whole);
}

TEST(RequiredLiteral, BreaksWhereUnicodeFoldsFurther) {
  EXPECT_EQ(required_literal("token", true).text, "to");
  EXPECT_FALSE(required_literal("token", true).is_whole);
  EXPECT_EQ(required_literal("needle", true).text, "needle");
}

// Soundness: whatever RE2 matches contains the literal.
TEST(RequiredLiteral, OccursInEverythingThatMatches) {
  const std::vector<std::string> atoms = {"a",     "b",   "ab",  ".", "[ab]", "[^a]", "(a)",    "(?:ab)",
                                          "(a|b)", "\\.", "\\w", "^", "$",    "\\b",  "(a(b)c)"};
  const std::vector<std::string> repeats = {"", "", "", "*", "+", "?", "{0,2}", "{2}", "*?"};
  std::mt19937 random(11);
  int tried = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string regex;
    for (std::size_t i = 1 + random() % 5; i > 0; --i)
      regex += atoms[random() % atoms.size()] + repeats[random() % repeats.size()];
    const RequiredLiteral literal = required_literal(regex, false);
    re2::RE2::Options options;
    options.set_log_errors(false);
    const re2::RE2 compiled(regex, options);
    if (literal.text.empty() || !compiled.ok()) continue;
    for (int i = 0; i < 10; ++i) {
      std::string text;
      for (std::size_t j = random() % 6; j > 0; --j) text += "abc."[random() % 4];
      re2::StringPiece found;
      const re2::StringPiece all(text);
      if (!compiled.Match(all, 0, all.size(), re2::RE2::UNANCHORED, &found, 1)) continue;
      ++tried;
      ASSERT_NE(found.as_string().find(literal.text), std::string::npos)
          << regex << " in " << text << " wants " << literal.text;
    }
  }
  EXPECT_GT(tried, 1000);
}

std::string first_line(std::string_view regex, std::string_view text, PatternOptions options = {}) {
  const auto pattern = Pattern::compile(regex, options);
  if (!pattern) return "error: " + pattern.error().message;
  const std::string buffer = padded(text);
  const Stop never;
  Effort effort{never};
  const auto found = pattern->find_line(buffer.data(), buffer.data() + text.size(), effort);
  return found ? std::string(found->begin, found->end) : "none";
}

TEST(Pattern, DoesNotMatchAcrossLines) {
  EXPECT_EQ(first_line("a[^x]+b", "a\nb\nacb\n"), "acb");
  EXPECT_EQ(first_line("a\\s+b", "a\nb\n"), "none");
}

TEST(Pattern, AnchorsAreThoseOfALineAlsoInCrlfFiles) {
  EXPECT_EQ(first_line("^b$", "ab\nb\n"), "b");
  EXPECT_EQ(first_line("b;$", "ab;\r\nc\r\n"), "b;\r");
  EXPECT_EQ(first_line("\\d$", "a1\r\n"), "1\r");
  // The text is the line.
  EXPECT_EQ(first_line("\\Ab.", "ab\nbc\n"), "bc");
  EXPECT_EQ(first_line("[ab]c\\z", "bcd\nac\n"), "ac");
  EXPECT_EQ(first_line("(?-m)^[bx]", "ab\nbc\n"), "b");
}

// However a pattern is compiled: by its literal, as a whole, by lines.
TEST(Pattern, ACarriageReturnIsACharacterAndALineEndsBeforeItToo) {
  for (const char* pattern : {"ab.", "ab\\r", "[a][b].", "(?:ab|xy).", "(?:ab|xy)\\r", "ab$", "(ab|xy)$", "[a]b$",
                              "\\Aab.", "b\\s$", "ab\\x0d"}) {
    for (const bool is_multiline : {false, true}) {
      const PatternOptions options{.is_multiline = is_multiline};
      EXPECT_NE(first_line(pattern, "x\r\nab\r\n", options).find('b'), std::string::npos) << pattern << is_multiline;
      EXPECT_EQ(first_line(pattern, "x\r\nabc\r\n", options) == "none",
                std::string_view(pattern).find_first_of("$rs0") != std::string_view::npos)
          << pattern << is_multiline;
    }
  }
  EXPECT_EQ(first_line("^$", "x\r\n\r\n"), "\r");
  EXPECT_EQ(first_line("^.$", "xy\r\n\r\n"), "\r");
  EXPECT_EQ(first_line("[$]", "a$\r\n"), "$");
  EXPECT_EQ(first_line("\\$|\\Q$\\E", "a$\r\n"), "$");
  EXPECT_EQ(first_line("ab\r", "ab\r\n", {.is_fixed = true}), "ab\r");
  EXPECT_EQ(first_line("ab", "ab\r\n", {.is_word = true}), "ab");
  EXPECT_EQ(first_line("ab$", "ab\r\n", {.is_word = true}).substr(0, 2), "ab");
}

TEST(Pattern, ANewlineIsRefusedHoweverItIsWrittenButNotWhereASetExcludesIt) {
  for (const char* pattern : {"a\nb", "a\\nb", "a\\x0ab", "a\\x0Ab", "a\\x{a}b", "a\\x{00a}b", "a\\012b", "a\\12b",
                              "[\\n]", "[a\\x0a]", "\\Qa\nb\\E"})
    EXPECT_NE(first_line(pattern, "x").find("set multiline"), std::string::npos) << pattern;
  EXPECT_EQ(first_line("a[^\\n]*b", "a\nacb\n"), "acb");
  EXPECT_EQ(first_line("[^\\x0a]b", "a\nacb\n"), "cb");
  EXPECT_EQ(first_line("a\\\\nb", "a\\nb\n"), "a\\nb");
  EXPECT_EQ(first_line("\\Qa\\nb\\E", "a\\nb\n"), "a\\nb");
  EXPECT_EQ(first_line("a\\x0bb|\\x{0ab}|\\0013", "a\vb\n"), "a\vb");
}

// Large enough that RE2 is given no more than 4 KiB at once.
constexpr const char* kLargeProgram = "x[ab]{5,900}y|\\pL{20}q";

TEST(Pattern, ALongTextIsSearchedInPiecesThatOverlap) {
  std::mt19937 random(11);
  const auto pattern = Pattern::compile(kLargeProgram, {});
  ASSERT_TRUE(pattern);
  const re2::RE2 judge(kLargeProgram);
  const Stop never;
  std::uint64_t long_texts = 0;
  for (int round = 0; round < 60; ++round) {
    std::string text(1 + random() % 20'000, '.');
    for (std::size_t i = random() % 4; i > 0; --i) {
      const std::string word = "x" + std::string(random() % 1000, 'a') + (random() % 4 == 0 ? "" : "y");
      text.insert(random() % text.size(), word);
    }
    re2::StringPiece expected;
    const bool is_match = judge.Match(text, 0, text.size(), re2::RE2::UNANCHORED, &expected, 1);
    const std::string buffer = padded(text);
    Effort effort{never};
    const auto found = pattern->find_line(buffer.data(), buffer.data() + text.size(), effort);
    ASSERT_EQ(found.has_value(), is_match) << round;
    if (found) {
      EXPECT_EQ(found->begin - buffer.data(), expected.data() - text.data());
      EXPECT_EQ(found->size(), expected.size());
    }
    EXPECT_EQ(effort.long_texts, text.size() > 4096 ? 1U : 0U);
    long_texts += effort.long_texts;
  }
  EXPECT_GT(long_texts, 20U);
}

TEST(Pattern, LooksAtWhetherToStopBetweenPieces) {
  Stop stop;
  stop.cancel();
  for (const std::string& text : {std::string(100'000, '.') + "xaaaaay", [] {
                                    std::string lines;
                                    for (int i = 0; i < 2000; ++i) lines += std::string(50, '.') + "\n";
                                    return lines + "xaaaaay";
                                  }()}) {
    for (const char* regex : {kLargeProgram, "xa[ab]{4,900}y(?:\\pL{20}q)?"}) {
      const auto pattern = Pattern::compile(regex, {});
      const std::string buffer = padded(text + std::string(8000, 'x') + "xa");
      Effort effort{stop};
      const auto found = pattern->find_line(buffer.data(), buffer.data() + buffer.size() - kScanPadding, effort);
      EXPECT_TRUE(effort.is_stopped) << regex;
      EXPECT_FALSE(found);
    }
  }
}

TEST(Pattern, ALiteralIsFoundWholeHoweverLongItAndItsTextAre) {
  const std::string literal(20'000, 'w');
  const auto pattern = Pattern::compile(literal, {.is_word = true});
  ASSERT_TRUE(pattern);
  const std::string buffer = padded(std::string(200'000, '.') + literal + std::string(200'000, '.'));
  const Stop never;
  Effort effort{never};
  const auto found = pattern->find_line(buffer.data(), buffer.data() + 420'000, effort);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->begin - buffer.data(), 200'000);
  EXPECT_EQ(effort.long_texts, 0U);
}

TEST(Pattern, WordFixedAndCase) {
  EXPECT_EQ(first_line("foo", "foobar\na foo b", {.is_word = true}), "foo");
  EXPECT_EQ(first_line("a.b(", "axb(\na.b(\n", {.is_fixed = true}), "a.b(");
  EXPECT_EQ(first_line("FOO", "foo\n", {.letter_case = PatternOptions::Case::insensitive}), "foo");
  EXPECT_EQ(first_line("foo", "FOO\n", {.letter_case = PatternOptions::Case::smart}), "FOO");
  EXPECT_EQ(first_line("Foo", "foo\n", {.letter_case = PatternOptions::Case::smart}), "none");
  EXPECT_EQ(first_line("token", "TOKEN\n", {.letter_case = PatternOptions::Case::insensitive}), "TOKEN");
}

TEST(Pattern, AWordHasNoWordCharacterBesideIt) {
  const PatternOptions word{.is_word = true};
  EXPECT_EQ(first_line("\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9s\nl'\xc3\xa9t\xc3\xa9!", word), "\xc3\xa9t\xc3\xa9");
  EXPECT_EQ(first_line("::", "a::b\na :: b", word), "::");
  EXPECT_EQ(first_line("::", "a::b\n", word), "none");
  EXPECT_EQ(first_line("gamma\\(", "gamma(x\ngamma( x", word), "gamma(");
  EXPECT_EQ(first_line("foo|foobar", "foobar\n", word), "foobar");
  EXPECT_EQ(first_line("foo",
                       "\xc3\xa9"
                       "foo\n",
                       word),
            "none");
  // A combining mark, a connector beyond ASCII and a letter in a circle belong to words; a dash does not.
  EXPECT_EQ(first_line("foo",
                       "foo\xcc\x81\nfoo\xe2\x80\xbf\n\xe2\x93\x90"
                       "foo\n",
                       word),
            "none");
  EXPECT_EQ(first_line("foo",
                       "\xe2\x80\x94"
                       "foo\xe2\x80\x94\n",
                       word),
            "foo");
  // The first place is no word, a later one on the same line is.
  EXPECT_EQ(first_line("fo+",
                       "\xc3\xa9"
                       "fo foo\n",
                       word),
            "foo");
}

TEST(Pattern, SmartCaseLooksAtLettersThatStandForThemselves) {
  const PatternOptions smart{.letter_case = PatternOptions::Case::smart};
  EXPECT_EQ(first_line("\\Soo", "FOO\n", smart), "FOO");
  EXPECT_EQ(first_line("\\x66oo\\B", "FOOB\n", smart), "FOO");
  EXPECT_EQ(first_line("(?P<Name>foo)", "FOO\n", smart), "FOO");
  EXPECT_EQ(first_line("\\p{Lu}\\pLo", "FOO\n", smart), "FOO");
  EXPECT_EQ(first_line("[[:upper:]]oo", "FOO\n", smart), "FOO");
  EXPECT_EQ(first_line("\xc3\x89t", "\xc3\xa9t\n", smart), "none");
  EXPECT_EQ(first_line("\xc3\xa9t", "\xc3\x89T\n", smart), "\xc3\x89T");
  EXPECT_EQ(first_line("\\x46oo", "foo\n", smart), "none");
  EXPECT_EQ(first_line("\\x{c9}t", "\xc3\xa9t\n", smart), "none");
  EXPECT_EQ(first_line("\\106oo", "foo\n", smart), "none");
  EXPECT_EQ(first_line("[F]oo", "foo\n", smart), "none");
  EXPECT_EQ(first_line("[]F]oo", "foo\n", smart), "none");
  EXPECT_EQ(first_line("\\QF\\Eoo", "foo\n", smart), "none");
  EXPECT_EQ(first_line("\\p{Lu}", "f\n", smart), "none") << "there is no letter to compare";
  EXPECT_EQ(first_line("\\S", "FOO\n", {.is_fixed = true, .letter_case = PatternOptions::Case::smart}), "none");
}

TEST(Pattern, SaysClearlyWhatRe2Refuses) {
  EXPECT_NE(first_line("a\\nb", "a\nb").find("multiline"), std::string::npos);
  const std::pair<const char*, const char*> cases[] = {
      {"(a)\\1", "back-references"},
      {"(?P<n>a)(?P=n)", "back-references"},
      {"a(?=b)", "look-around"},
      {"(?<!a)b", "look-around"},
      {"(?<n>a)", "(?P<name>"},
      {"a{1001}", "1000 times"},
      {"((x{1000}){1000}){1000}", "1000 times"},
  };
  EXPECT_NE(first_line("(?:\\pL{20}){2}", "x").find("instructions"), std::string::npos);
  for (const auto& [pattern, hint] : cases) {
    const std::string said = first_line(pattern, "x");
    EXPECT_NE(said.find("RE2 refuses it"), std::string::npos) << pattern;
    EXPECT_NE(said.find(hint), std::string::npos) << pattern << ": " << said;
  }
  for (const char* pattern : {"[", "a(", "a**", "a{1001}", "\\y"}) {
    const std::string said = first_line(pattern, "x");
    EXPECT_NE(said.find("RE2 refuses it"), std::string::npos) << pattern;
    EXPECT_EQ(said.find("back-ref"), std::string::npos) << said;
    EXPECT_EQ(said.find("look-around"), std::string::npos) << said;
  }
}

TEST(Text, NamesTravelAsTheirBytes) {
  for (const std::string& name : {std::string("plain"), std::string("\x80z"), std::string("\xc3\xa9"),
                                  std::string("\xff"
                                              "a%41"),
                                  std::string("%"), std::string("d/\xe2\x82")}) {
    EXPECT_TRUE(is_utf8(spell_name(name)));
    EXPECT_EQ(read_name(spell_name(name)), name);
  }
  EXPECT_EQ(spell_name("\xff"
                       "a%"),
            "%FFa%25");
  for (const char* wrong : {"%", "%4", "%41", "%ff", "%C3%A9", "%+1", "%00", "a%zz"})
    EXPECT_FALSE(read_name(wrong)) << wrong;
}

TEST(Text, DecodesUtf16) {
  EXPECT_EQ(utf16_to_utf8(std::string_view("\xff\xfe\x41\0\xe9\0\x3d\xd8\0\xde", 10), false),
            "A\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(utf16_to_utf8(std::string_view("\xfe\xff\0A\xd8\x3d\0B", 8), true),
            "A\xef\xbf\xbd"
            "B");
  EXPECT_EQ(utf16_to_utf8(std::string_view("A\0B", 3), false), "A\xef\xbf\xbd");
  EXPECT_EQ(utf16_to_utf8("", false), "");
}

}  // namespace
}  // namespace sallyport::worker

#include "pod/terminal_filter.h"

#include <gtest/gtest.h>

#include <string>

#include "base/log.h"
#include "pod/give_back.h"

namespace sallyport::pod {
namespace {

using Queries = TerminalFilter::Queries;

std::string filtered(std::string_view in, Queries queries = Queries::pass) {
  TerminalFilter filter(queries);
  Bytes out;
  filter.feed(as_bytes(in), out);
  return std::string(as_text(out.view()));
}

struct Case {
  const char* name;
  std::string in, out;
};

const Case kPassed[] = {
    {"text", "hello, world\r\n\ttab\b", ""},
    {"utf8", "gr\xc3\xbc\xc3\x9f \xe2\x80\x9cquoted\xe2\x80\x9d \xf0\x9f\x98\x80 \xe6\x97\xa5", ""},
    {"colours", "\x1b[31;1mred\x1b[0m \x1b[38;2;1;2;3mrgb \x1b[4:3mcurly", ""},
    {"cursor", "\x1b[H\x1b[2J\x1b[10;20H\x1b[A\x1b[s\x1b[u\x1b[6 q\x1b[!p", ""},
    {"modes", "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1000h\x1b[>4;1m\x1b[=1u\x1b[<u", ""},
    {"charsets",
     "\x1b(0\x1b(B\x1b)0\x1b=\x1b>\x1b"
     "7\x1b"
     "8\x1bM",
     ""},
    {"title", "\x1b]0;my title?\x1b\\\x1b]2;x\x1b\\", ""},
    {"link", "\x1b]8;;https://example.org/?q=1\x1b\\link\x1b]8;;\x1b\\", ""},
    {"clipboard set", "\x1b]52;c;aGVsbG8=\x1b\\", ""},
    {"colour set", "\x1b]4;1;rgb:ff/00/00\x1b\\\x1b]11;#000000\x1b\\\x1b]104\x1b\\", ""},
    {"title stack", "\x1b[22;0t\x1b[23;0t", ""},
    {"bell ends become string ends", "\x1b]0;t\x07", "\x1b]0;t\x1b\\"},
};

const Case kDropped[] = {
    {"clipboard read", "a\x1b]52;c;?\x07z", "az"},
    {"clipboard read without selection", "a\x1b]52;;?\x1b\\z", "az"},
    {"clipboard read by a byte that is replaced", "a\x1b]52;c;\xbc\x07z", "az"},
    {"8-bit controls as a selection", "a\x1b]52;\x90;aGk=\x07z", "az"},
    {"title report", "a\x1b[21tz", "az"},
    {"icon title report", "a\x1b[20tz", "az"},
    {"window reports and moves", "a\x1b[14t\x1b[18t\x1b[3;1;1tz", "az"},
    {"colour query", "a\x1b]10;?\x07\x1b]4;1;?\x1b\\z", "az"},
    {"setting report (DECRQSS)", "a\x1bP$q\"p\x1b\\z", "az"},
    {"termcap report", "a\x1bP+q544e\x1b\\z", "az"},
    {"tmux pass-through", "a\x1bPtmux;\x1b\x1b]52;c;?\x07\x1b\\z", "az"},
    {"mode report", "a\x1b[?2026$pz", "az"},
    {"checksum of the screen", "a\x1b[1;1;1;1;2;2*yz", "az"},
    {"terminal parameters", "a\x1b[xz", "az"},
    {"version", "a\x1b[>qz", "az"},
    {"printing", "a\x1b[5iz", "az"},
    {"answerback", "a\x05z", "az"},
    {"leaving UTF-8, where half a character is a control", "a\x1b%@z", "az"},
    {"other forms of its answers", "a\x1b Gz", "az"},
    {"graphics that read files", "a\x1b_Gt=f;L2V0Yy9wYXNzd2Q=\x1b\\z", "az"},
    {"privacy message", "a\x1b^x\x1b\\z", "az"},
    {"start of string", "a\x1bXx\x1b\\z", "az"},
    {"title of screen and tmux, with all of it", "a\x1bktitle\x1b\\z", "az"},
    {"sizes told by themselves", "a\x1b[?2048hz", "az"},
    {"the same among others and otherwise written", "a\x1b[?25;2048h\x1b[?002048h\x1b[?2048:1h\x1b[?67584h\x1b[?2048rz",
     "az"},
    {"unknown command", "a\x1b]1337;ReportVariable=x\x07z", "az"},
    {"8-bit OSC",
     "a\x9d"
     "52;c;?\x9cz",
     "a?52;c;??z"},
    {"C1 in UTF-8",
     "a\xc2\x9d"
     "52;c;?\xc2\x9cz",
     "a?52;c;??z"},
    {"8-bit DCS", "a\x90$q\"p\x9cz", "a?$q\"p?z"},
    {"overlong escape", "a\xc0\x9b[21tz", "a??[21tz"},
    {"invalid bytes", "a\xff\xfez", "a??z"},
    {"control inside a sequence", "a\x1b[2\n1tz", "az"},
    {"graphics of rxvt, whose answer ends a line", "a\x1bGQz", "aQz"},
    {"a VT52, to which sequences mean something else", "a\x1b[?2l\x1b[?25;2l\x1b[?65538l\x1b[?2r\x1b[61\"pz", "az"},
    {"a Tektronix", "a\x1b[?38h\x1b[?38rz", "az"},
    {"numbers that a terminal takes for those of a report", "a\x1b[223338299413t\x1b[229t\x1b[2300tz", "az"},
    {"a million repetitions", "ab\x1b[1000000bz", "abz"},
    {"a locked keyboard", "a\x1b[2h\x1b[4;02hz", "az"},
    {"an escape inside a title begins anew", "\x1b]0;a\x1b[31mb", "\x1b]0;a\x1b\\\x1b[31mb"},
    {"cancelled sequence", "a\x1b[2\x18z", "az"},
};

TEST(TerminalFilter, PassesWhatTerminalsShow) {
  for (const Case& each : kPassed) EXPECT_EQ(filtered(each.in), each.out.empty() ? each.in : each.out) << each.name;
}

TEST(TerminalFilter, DropsWhatTerminalsAnswer) {
  for (const Case& each : kDropped) EXPECT_EQ(filtered(each.in), each.out) << each.name;
}

TEST(TerminalFilter, JoinsNoDigitsToTheNumberOfACommand) {
  for (const std::string number : {"0", "1", "8", "10", "104"}) {
    for (int control = 0; control <= 0x7f; ++control) {
      const auto byte = static_cast<char>(control);
      if ((control >= 0x20 && control < 0x7f) || control == 0x1b) continue;
      const bool is_end = control == 0x07 || control == 0x18 || control == 0x1a;
      EXPECT_EQ(filtered("a\x1b]" + number + byte + "52;c;?\x07z"),
                is_end ? "a\x1b]" + number + "\x1b\\52;c;?\x07z" : "az")
          << number << " " << control;
    }
  }
}

TEST(TerminalFilter, PassesNoShortSequenceThatIsNotKnown) {
  constexpr std::string_view kKnown = "6789=><cDEMNOZno|}~", kLonger = "[]PX^_k\\";
  for (char final_byte = 0x30; final_byte < 0x7f; ++final_byte) {
    const std::string sequence = std::string("\x1b") + final_byte;
    if (kLonger.find(final_byte) != std::string_view::npos) continue;
    EXPECT_EQ(filtered(sequence), kKnown.find(final_byte) == std::string_view::npos ? "" : sequence) << sequence;
  }
}

// CSI 12 ; 7 ] shows another console on Linux; others print, or answer.
TEST(TerminalFilter, PassesNoControlSequenceThatIsNotKnown) {
  constexpr std::string_view kKnown = "@ABCDEFGHIJKLMPSTXZ^`abdefjkmrsu";
  for (char final_byte = 0x40; final_byte < 0x7f; ++final_byte) {
    const std::string sequence = std::string("\x1b[12;7") + final_byte;
    EXPECT_EQ(filtered(sequence), kKnown.find(final_byte) == std::string_view::npos ? "" : sequence) << sequence;
  }
}

// What a terminal cannot be given back from, or only by some: tabs, origin, columns, repeated and other keys.
TEST(TerminalFilter, PassesNoModeThatItCannotTakeBack) {
  for (const char* mode : {"\x1b[?6h",  "\x1b[?3h",    "\x1b[?8l",    "\x1b[?40h",   "\x1b[?42h",    "\x1b[?45h",
                           "\x1b[?67h", "\x1b[?1036l", "\x1b[?1051h", "\x1b[?7727h", "\x1b[?9001h",  "\x1b[?25;9001h",
                           "\x1b[3h",   "\x1b[2h",     "\x1b[>1;3m",  "\x1b[3g",     "\x1b[g",       "\x1bH",
                           "\x1b[?6r",  "\x1b[?6s",    "\x1b[>2p",    "\x1b[>1n",    "\x1b[?47:47l", "\x1b[4:20h"}) {
    EXPECT_EQ(filtered(mode), "") << mode;
  }
  // Those of the cursor's blinking, the keypad and other screens are given back by other sequences.
  const std::string given_back = std::string(kGiveBack) + std::string(kLeaveScreen) + "?12l ?66l ?1047l ?1048l";
  for (int mode = 0; mode < 10'000; ++mode) {
    const std::string number = "?" + std::to_string(mode);
    if (filtered("\x1b[" + number + "h").empty()) continue;
    EXPECT_TRUE(given_back.find(number + "l") != std::string::npos ||
                given_back.find(number + "h") != std::string::npos)
        << number;
  }
}

// With all keys as codes nobody would find those that detach.
TEST(TerminalFilter, LeavesTheKeysOfTextAsTheyAre) {
  EXPECT_EQ(filtered("\x1b[>31u"), "\x1b[>5u");
  EXPECT_EQ(filtered("\x1b[=8;1u"), "\x1b[=0;1u");
  EXPECT_EQ(filtered("\x1b[=29;2u"), "\x1b[=5;2u");
  EXPECT_EQ(filtered("\x1b[>5u\x1b[<u"), "\x1b[>5u\x1b[<u");
  EXPECT_EQ(filtered("\x1b[>00008u"), "\x1b[>0u");
  EXPECT_EQ(filtered("\x1b[=00031;1u"), "\x1b[=5;1u");
  EXPECT_EQ(filtered("\x1b[>u"), "\x1b[>0u");
  EXPECT_EQ(filtered("\x1b[>4;2m"), "\x1b[>4;1m") << "or those of shifted keys are codes, too";
  for (const char* odd : {"\x1b[>8:0u", "\x1b[>:8u", "\x1b[>4;3m", "\x1b[>04;3m"}) EXPECT_EQ(filtered(odd), "") << odd;
}

TEST(TerminalFilter, KnowsWhichScreenIsShown) {
  TerminalFilter filter(Queries::drop);
  Bytes out;
  const auto shows_other = [&](std::string_view text) {
    filter.feed(as_bytes(text), out);
    return filter.is_on_other_screen();
  };
  EXPECT_FALSE(shows_other("text\x1b[?25l"));
  EXPECT_TRUE(shows_other("\x1b[?25;1049h"));
  filter.reset();
  EXPECT_TRUE(shows_other("text"));
  EXPECT_FALSE(shows_other("\x1b[?1049l"));
  EXPECT_TRUE(shows_other("\x1b[?47h"));
  const std::uint64_t before = filter.screen_switches();
  EXPECT_TRUE(shows_other("\x1b[?1049l\x1b[?1049h"));
  EXPECT_EQ(filter.screen_switches(), before + 2);
  // Terminals disagree on what else ends it.
  EXPECT_TRUE(shows_other("\x1b[?47l"));
  EXPECT_TRUE(
      shows_other("\x1b"
                  "c"));
  EXPECT_FALSE(shows_other("\x1b[?1049l"));
}

TEST(TerminalFilter, RemembersThatItLeftTheUsualCharacters) {
  TerminalFilter filter(Queries::drop);
  Bytes out;
  filter.feed(as_bytes("plain text that is long enough"), out);
  EXPECT_FALSE(filter.has_left_traces());
  filter.feed(as_bytes("more of it \x0e and more"), out);
  EXPECT_TRUE(filter.has_left_traces());
}

TEST(TerminalFilter, PassesNoMoreQueriesThanItMay) {
  TerminalFilter filter(Queries::drop);
  Bytes out;
  filter.set_queries(Queries::pass, 2);
  filter.feed(as_bytes("\x1b[6n\x1b[m\x1b[c\x1bZ\x1b[?6n\x1b[6nz"), out);
  EXPECT_EQ(as_text(out.view()), "\x1b[6n\x1b[m\x1b[cz");
  EXPECT_EQ(filter.queries_left(), 0U);
}

// Some terminals tell of it at once, each time.
TEST(TerminalFilter, CountsRequestsToTellOfTheFocusAsQueries) {
  for (const char* request : {"\x1b[?1004h", "\x1b[?25;01004h", "\x1b[?1004r"}) {
    EXPECT_EQ(filtered(request, Queries::drop), std::string_view(request).starts_with("\x1b[?25") ? "\x1b[?25h" : "");
    TerminalFilter filter(Queries::pass);
    Bytes out;
    filter.set_queries(Queries::drop, 1);  // as in a repaint
    filter.feed(as_bytes(request), out);
    filter.feed(as_bytes("\x1b[?1004s\x1b[?1004l\x1b[6n"), out);
    filter.feed(as_bytes(request), out);
    EXPECT_EQ(filter.queries_left(), 0U);
    const std::string text(as_text(out.view()));
    EXPECT_EQ(text.find("1004h"), text.rfind("1004h")) << text;
    EXPECT_NE(text.find("1004"), std::string::npos) << text;
    EXPECT_NE(text.find("\x1b[?1004s\x1b[?1004l"), std::string::npos) << text;
  }
  TerminalFilter filter(Queries::pass);
  Bytes out;
  filter.set_queries(Queries::pass, 2);
  filter.feed(as_bytes("\x1b[?1004;1004;1049;1004h"), out);
  EXPECT_EQ(as_text(out.view()), "\x1b[?1004;1004;1049h");
  EXPECT_TRUE(filter.is_on_other_screen());
}

TEST(TerminalFilter, CountsTheQueriesThatAreAnsweredAlike) {
  TerminalFilter filter(Queries::pass);
  Bytes out;
  filter.feed(as_bytes("\x1b[5n\x1b[6n\x1b[c"), out);
  filter.reset();
  filter.set_queries(Queries::drop, 9);
  filter.feed(as_bytes("\x1b[5n"), out);
  filter.set_queries(Queries::pass, 1);
  filter.feed(as_bytes("\x1b[5n\x1b[5n"), out);
  EXPECT_EQ(filter.status_queries(), 2U);
}

TEST(TerminalFilter, LeavesDeviceQueriesToATerminalThatControls) {
  for (const char* query : {"\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1bZ"}) {
    EXPECT_EQ(filtered(query, Queries::pass), query);
    EXPECT_EQ(filtered(query, Queries::drop), "");
  }
}

TEST(TerminalFilter, DoesTheSameAtEverySplitPosition) {
  std::string all;
  for (const Case& each : kPassed) all += each.in;
  for (const Case& each : kDropped) all += each.in;
  const std::string whole = filtered(all);
  for (std::size_t split = 0; split <= all.size(); ++split) {
    TerminalFilter filter(Queries::pass);
    Bytes out;
    filter.feed(as_bytes(std::string_view(all).substr(0, split)), out);
    filter.feed(as_bytes(std::string_view(all).substr(split)), out);
    ASSERT_EQ(as_text(out.view()), whole) << "split at " << split;
  }
  TerminalFilter filter(Queries::pass);
  Bytes out;
  for (const char byte : all) filter.feed(as_bytes(std::string_view(&byte, 1)), out);
  EXPECT_EQ(as_text(out.view()), whole);
}

TEST(TerminalFilter, ChangesNothingTheSecondTime) {
  for (const auto& cases : {std::span<const Case>(kPassed), std::span<const Case>(kDropped)}) {
    for (const Case& each : cases) EXPECT_EQ(filtered(filtered(each.in)), filtered(each.in)) << each.name;
  }
}

TEST(TerminalFilter, DropsASequenceThatIsTooLongAndGoesOn) {
  EXPECT_EQ(filtered("a\x1b[" + std::string(100'000, '1') + "mz"), "az");
  EXPECT_EQ(filtered("a\x1b]11;" + std::string(100'000, 'x') + "\x07z"), "az");
  const std::string long_title = "\x1b]0;" + std::string(100'000, 't') + "\x1b\\";
  EXPECT_EQ(filtered(long_title), long_title);
}

TEST(TerminalFilter, KnowsWhetherSomethingOutlastsTheText) {
  for (const char* passing :
       {"text\r\n", "\x1b[31mred\x1b[m", "\x1b[1;31mred\x1b[0;0m", "\x1b[2K\x1b[H\x1b[3A", "\x1b[21t\x1bPx\x1b\\"}) {
    TerminalFilter filter(Queries::drop);
    Bytes out;
    filter.feed(as_bytes(passing), out);
    EXPECT_FALSE(filter.has_left_traces() || filter.is_coloured()) << escape_for_display(passing);
  }
  for (const char* lasting : {"\x1b[?1000h", "\x1b[4h", "\x1b[3;5r", "\x1b(0", "\x1b=", "\x1b]0;open",
                              "\x1b]8;;http://a\x1b\\link", "\x1b]11;#000000\x07", "\x1b]52;c;aGk=", "\x1b[6 q"}) {
    TerminalFilter filter(Queries::drop);
    Bytes out;
    filter.feed(as_bytes(lasting), out);
    EXPECT_TRUE(filter.has_left_traces()) << escape_for_display(lasting);
  }
  TerminalFilter filter(Queries::drop);
  Bytes out;
  filter.feed(as_bytes("\x1b[31mred"), out);
  EXPECT_TRUE(filter.is_coloured());
}

TEST(TerminalFilter, KnowsWhetherColoursWereSet) {
  TerminalFilter filter(Queries::pass);
  Bytes out;
  filter.feed(as_bytes("\x1b[31mred\x1b]10;?\x07\x1b]104\x07\x1b]0;t\x07"), out);
  EXPECT_FALSE(filter.has_set_colours());
  filter.feed(as_bytes("\x1b]11;#000000\x07"), out);
  filter.reset();
  EXPECT_TRUE(filter.has_set_colours());
}

TEST(TerminalFilter, ForgetsAnUnfinishedSequenceOnReset) {
  TerminalFilter filter(Queries::pass);
  Bytes out;
  filter.feed(as_bytes("\x1bPunfinished"), out);
  filter.reset();
  filter.feed(as_bytes("shown"), out);
  EXPECT_EQ(as_text(out.view()), "shown");
}

}  // namespace
}  // namespace sallyport::pod

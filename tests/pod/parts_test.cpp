// The small parts of a pod: the ring, keys, queries, what is handed over.
#include <gtest/gtest.h>

#include "base/log.h"
#include "pod/device_queries.h"
#include "pod/escape_keys.h"
#include "pod/reports.h"
#include "pod/screen.h"
#include "pod/startup.h"

namespace sallyport::pod {
namespace {

std::string content(const Screen& screen, std::uint64_t from) {
  std::string text;
  for (const ByteView piece : screen.read(from, SIZE_MAX)) text += as_text(piece);
  return text;
}

TEST(Screen, RemembersTheLastBytesOfAnyAmount) {
  Screen screen(16);
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string piece = std::to_string(i) + std::string(static_cast<std::size_t>(i % 7), '.');
    screen.feed(as_bytes(piece));
    all += piece;
    ASSERT_EQ(screen.end(), all.size());
    ASSERT_EQ(content(screen, screen.begin()), all.substr(all.size() - std::min<std::size_t>(all.size(), 16)));
  }
  screen.feed(as_bytes(std::string(1000, 'x') + "0123456789abcdef"));
  EXPECT_EQ(content(screen, screen.begin()), "0123456789abcdef");
}

TEST(Screen, RepaintsFromBehindALineEnd) {
  Screen screen(32);
  screen.feed(as_bytes("first\nsecond\n"));
  EXPECT_EQ(screen.repaint_from(1000), 0U) << "nothing was lost: from the start";
  EXPECT_EQ(content(screen, screen.repaint_from(10)), "second\n");
  screen.feed(as_bytes("and a line that pushes the first out"));
  EXPECT_LE(screen.end() - screen.repaint_from(1000), 32U);
}

TEST(Screen, RepaintsAtMostWhatIsAskedForEvenWithoutLines) {
  Screen screen(64);
  screen.feed(as_bytes(std::string(500, 'x')));
  EXPECT_EQ(screen.end() - screen.repaint_from(20), 20U);
}

// What is typed, byte by byte and at once: commands in brackets.
std::string typed(std::string_view keys, bool by_byte, char escape = '~') {
  EscapeKeys machine(escape);
  std::string result;
  while (!keys.empty()) {
    Bytes out;
    std::size_t used = 0;
    const KeyCommand command = machine.feed(as_bytes(keys.substr(0, by_byte ? 1 : keys.size())), out, used);
    result += as_text(out.view());
    if (command == KeyCommand::detach) return result + "[detach]";
    if (command == KeyCommand::take) result += "[take]";
    if (command == KeyCommand::release) result += "[release]";
    if (command == KeyCommand::help) result += "[help]";
    keys = keys.substr(used);
  }
  return result;
}

TEST(EscapeKeys, CommandsStandBehindANewline) {
  for (const bool by_byte : {false, true}) {
    EXPECT_EQ(typed("~.", by_byte), "[detach]") << "at the start";
    EXPECT_EQ(typed("ls\r~.rest", by_byte), "ls\r[detach]");
    EXPECT_EQ(typed("ls ~.", by_byte), "ls ~.");
    EXPECT_EQ(typed("\r~~.", by_byte), "\r~.");
    EXPECT_EQ(typed("\r~x", by_byte), "\r~x");
    EXPECT_EQ(typed("~t~r\r~?", by_byte), "[take][release]\r[help]");
    EXPECT_EQ(typed("\r%.", by_byte, '%'), "\r[detach]");
    EXPECT_EQ(typed("\r~.", by_byte, '\0'), "\r~.");
  }
}

// Answers, focus, and a mouse in three of its languages, by which an agent could drown the keys.
constexpr std::string_view kReports[] = {"\x1b[12;40R",      "\x1b[?62;22c", "\x1b[0n",        "\x1b[?1u",
                                         "\x1b[I",           "\x1b[O",       "\x1b[<35;9;20M", "\x1b[<0;10;200m",
                                         "\x1b[35;100;200M", "\x1b[M#.\r"};

TEST(EscapeKeys, AreFoundAmongWhatTheTerminalSaysByItself) {
  std::string reports;
  for (const std::string_view report : kReports) reports += report;
  EXPECT_EQ(typed("ls\r" + reports + "~" + reports + ".", false), "ls\r" + reports + reports + "[detach]");
  EXPECT_EQ(typed("ls" + reports + "~.", false), "ls" + reports + "~.");
  for (const std::string key : {"\x1b[A", "\x1b[27u", "\x1b[15~", "\x1b[1;5H", "\x1b[m", "\x1b[[A", "\x1bOP", "\x1b"}) {
    EXPECT_EQ(typed("\r~" + key + ".", false), "\r~" + key + ".") << "a key is no report";
    EXPECT_EQ(typed("\r" + key + "~.", false), "\r" + key + "~.") << "a key is no report";
  }
}

TEST(EscapeKeys, AreFoundThoughAReportComesInPieces) {
  for (const std::string_view report : kReports) {
    for (std::size_t cut = 2; cut < report.size(); ++cut) {
      EscapeKeys machine('~');
      std::string passed;
      KeyCommand command = KeyCommand::none;
      for (const std::string& piece : {std::string("\r~"), std::string(report.substr(0, cut)),
                                       std::string(report.substr(cut)), std::string(".")}) {
        Bytes out;
        std::size_t used = 0;
        command = machine.feed(as_bytes(piece), out, used);
        passed += as_text(out.view());
      }
      EXPECT_EQ(command, KeyCommand::detach) << escape_for_display(report) << " cut at " << cut;
      EXPECT_EQ(passed, "\r" + std::string(report));
    }
  }
}

TEST(EscapeKeys, PassEverythingHoweverItIsCut) {
  const std::string keys = "a\x1b[1;2\x1b[A\x1b\x1b[12R\x1b[" + std::string(200, '1') + "z\x1b[\x01~\x1b[M12~.x";
  for (std::size_t cut = 0; cut <= keys.size(); ++cut) {
    EscapeKeys machine('~');
    Bytes out;
    std::size_t used = 0;
    for (const std::string& piece : {keys.substr(0, cut), keys.substr(cut)}) {
      EXPECT_EQ(machine.feed(as_bytes(piece), out, used), KeyCommand::none);
    }
    EXPECT_EQ(as_text(out.view()), keys) << cut;
  }
}

TEST(DeviceQueries, AreAnsweredHoweverTheyAreCut) {
  const std::string output = "text\x1b[c more \x1b[31mred\x1b[6n\x1b[5n\x1b[>c\x1b\x1b[c\x1b[123456789c";
  const std::string answers = "\x1b[?62;22c\x1b[1;1R\x1b[0n\x1b[>1;0;0c\x1b[?62;22c";
  for (std::size_t split = 0; split <= output.size(); ++split) {
    DeviceQueries queries;
    Bytes out;
    queries.feed(as_bytes(std::string_view(output).substr(0, split)), out);
    queries.feed(as_bytes(std::string_view(output).substr(split)), out);
    ASSERT_EQ(as_text(out.view()), answers) << split;
  }
}

TEST(Startup, ComesBackAsItWasHandedOver) {
  Startup startup;
  startup.name = "agent-1";
  startup.pods_dir = "/somewhere/pods";
  startup.token.fill(7);
  startup.profile = "default";
  startup.with_tcp = true;
  startup.size = {50, 132};
  startup.ring_bytes = kMinRingBytes;
  startup.keep = Millis(5);
  startup.spec.command = {"sh", "-c", "true"};
  startup.spec.environment = {"A=b"};
  const auto bytes = encode(startup);
  ASSERT_TRUE(bytes);
  const auto back = decode_startup(bytes->view());
  ASSERT_TRUE(back) << back.error().describe();
  EXPECT_EQ(back->name, startup.name);
  EXPECT_EQ(back->token, startup.token);
  EXPECT_EQ(back->size, startup.size);
  EXPECT_TRUE(back->with_tcp);
  EXPECT_EQ(back->spec.command, startup.spec.command);
  for (std::size_t size = 0; size < bytes->size(); size += 7) EXPECT_FALSE(decode_startup(bytes->view().first(size)));
}

TEST(Startup, HandsOverItsNetRulesAndRefusesAProxyWithoutThem) {
  Startup startup;
  startup.name = "net";
  startup.pods_dir = "/pods";
  startup.spec.command = {"true"};
  startup.spec.has_proxy = true;
  startup.container = "pod-net-1";
  startup.hosts_file = "/hosts";
  startup.net = *policy::NetPolicy::make({"web.test:80"}, {"evil.test"}, {});
  const auto bytes = encode(startup);
  ASSERT_TRUE(bytes);
  const auto back = decode_startup(bytes->view());
  ASSERT_TRUE(back) << back.error().describe();
  EXPECT_EQ(back->container, "pod-net-1");
  EXPECT_EQ(back->hosts_file, "/hosts");
  ASSERT_TRUE(back->net);
  EXPECT_EQ(back->net->allow.at(0).text, "web.test:80");
  EXPECT_EQ(back->net->deny.at(0).text, "evil.test");
  startup.net.reset();
  EXPECT_FALSE(decode_startup(encode(startup)->view()));
}

// ---- reports ----

TEST(Reports, AreKeptInOrderUntilTheyAreTakenAndCountWhatGaveWay) {
  const SystemClock clock;
  Reports reports(clock);
  EXPECT_TRUE(reports.is_empty());
  const auto told = [&] {
    return wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object();
      reports.write(json);
      json.end_object();
    });
  };
  for (int i = 1; i <= 3; ++i) {
    reports.add([&](wire::JsonWriter& json) { json.member("what", i * 10); });
  }
  EXPECT_NE(told().find(R"("what":10)"), std::string::npos);
  reports.taken(0);
  EXPECT_NE(told().find(R"("what":10)"), std::string::npos) << "a warden that knows nothing yet gets all of it";
  reports.taken(2);
  EXPECT_EQ(told().find(R"("what":20)"), std::string::npos);
  EXPECT_NE(told().find(R"("number":3)"), std::string::npos);
  reports.taken(3);
  EXPECT_TRUE(reports.is_empty());
  for (std::size_t i = 0; i < kMaxReports + 5; ++i) reports.add([](wire::JsonWriter&) {});
  EXPECT_NE(told().find(R"("lost":5)"), std::string::npos);
  EXPECT_LT(told().size(), wire::kMaxFrameBytes);
}

TEST(Reports, TellsOfWhatGaveWayWhileAnAnswerWasOnItsWay) {
  const SystemClock clock;
  Reports reports(clock);
  const auto add = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) reports.add([](wire::JsonWriter&) {});
  };
  const auto tells = [&](const std::string& part) {
    return wire::to_json([&](wire::JsonWriter& json) {
             json.begin_object();
             reports.write(json);
             json.end_object();
           }).find(part) != std::string::npos;
  };
  add(kMaxReports + 5);
  EXPECT_TRUE(tells(R"("lost":5)"));
  // The answer carries the next ones; those and three more give way before it is taken.
  add(kReportsAtOnce + 3);
  reports.taken(5 + kReportsAtOnce);
  EXPECT_TRUE(tells(R"("lost":3)"));
  reports.taken(UINT64_MAX);
  EXPECT_TRUE(reports.is_empty());
  EXPECT_TRUE(tells(R"("lost":0)"));
}

TEST(Startup, TellsLastWordsFromSuccess) {
  EXPECT_TRUE(outcome("\x06"));
  EXPECT_TRUE(outcome("a warning\n\x06"));
  const Status silent = outcome("");
  ASSERT_FALSE(silent);
  EXPECT_NE(silent.error().message.find("it said nothing"), std::string::npos);
  const Status spoken = outcome("error while loading shared libraries: x\n");
  ASSERT_FALSE(spoken);
  EXPECT_NE(spoken.error().message.find("shared libraries"), std::string::npos);
  const Status structured = outcome(R"({"code":"CONFLICT","message":"taken","retryable":false})"
                                    "\n");
  ASSERT_FALSE(structured);
  EXPECT_EQ(structured.error().code, Code::conflict);
}

}  // namespace
}  // namespace sallyport::pod

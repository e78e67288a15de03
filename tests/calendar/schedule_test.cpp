// Cron expressions and times, against tables, against an independent definition, and around clock changes.
#include <gtest/gtest.h>

#include <random>

#include "calendar/schedule.h"

namespace sallyport::calendar {
namespace {

std::int64_t at(std::string_view text) {
  const auto moment = parse_rfc3339(text);
  EXPECT_TRUE(moment) << text;
  return moment ? *moment / 1000 : 0;
}

std::string next(std::string_view cron, std::string_view after, const Zone& zone = {}) {
  const auto parsed = Cron::parse(cron);
  if (!parsed) return parsed.error().message;
  const auto found = parsed->next(at(after), zone);
  return found ? format_rfc3339(*found * 1000) : "never";
}

Zone zone(const std::string& name) {
  auto loaded = Zone::load(name);
  EXPECT_TRUE(loaded) << loaded.error().message;
  return loaded ? *loaded : Zone();
}

TEST(Cron, FindsTheNextRun) {
  constexpr struct {
    const char *cron, *after, *expected;
  } kTable[] = {
      {"* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
      {"* * * * *", "2026-01-01T00:00:59Z", "2026-01-01T00:01:00Z"},
      {"*/15 * * * *", "2026-01-01T00:14:59Z", "2026-01-01T00:15:00Z"},
      {"*/15 * * * *", "2026-01-01T00:45:00Z", "2026-01-01T01:00:00Z"},
      {"0 9-17/2 * * *", "2026-01-01T17:00:00Z", "2026-01-02T09:00:00Z"},
      {"30 8 * * MON-FRI", "2026-01-02T08:30:00Z", "2026-01-05T08:30:00Z"},  // Friday to Monday
      {"0 0 * * sat-sun", "2026-01-05T00:00:00Z", "2026-01-10T00:00:00Z"},
      {"0 0 * * SUN-SUN", "2026-01-05T00:00:00Z", "2026-01-11T00:00:00Z"},
      {"0 0 * * SUN-0", "2026-01-05T00:00:00Z", "2026-01-11T00:00:00Z"},
      {"0 0 * * 0-0", "2026-01-05T00:00:00Z", "2026-01-11T00:00:00Z"},
      {"0 0 * * 0-7", "2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z"},
      {"0 0 * * 7", "2026-01-05T00:00:00Z", "2026-01-11T00:00:00Z"},
      {"0 0 * * 0", "2026-01-05T00:00:00Z", "2026-01-11T00:00:00Z"},
      {"0 0 31 * *", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z"},
      {"0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
      {"0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},   // 2100 is no leap year
      {"0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},   // either of two restricted days
      {"0 0 */2 * 1", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"},  // `*/2` restricts nothing: both
      {"0 12 1 JAN,jul *", "2026-01-01T12:00:00Z", "2026-07-01T12:00:00Z"},
      {"5,10,50-52 3 * * *", "2026-01-01T03:10:00Z", "2026-01-01T03:50:00Z"},
      {"@hourly", "2026-01-01T00:30:00Z", "2026-01-01T01:00:00Z"},
      {"@daily", "2026-01-01T00:30:00Z", "2026-01-02T00:00:00Z"},
      {"@midnight", "2026-01-01T00:30:00Z", "2026-01-02T00:00:00Z"},
      {"@weekly", "2026-01-01T00:30:00Z", "2026-01-04T00:00:00Z"},
      {"@monthly", "2026-01-01T00:30:00Z", "2026-02-01T00:00:00Z"},
      {"@yearly", "2026-01-01T00:30:00Z", "2027-01-01T00:00:00Z"},
      {"@annually", "2026-01-01T00:30:00Z", "2027-01-01T00:00:00Z"},
      {" \t0  0 * * * ", "2026-01-01T00:30:00Z", "2026-01-02T00:00:00Z"},
      {"59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"},
  };
  for (const auto& row : kTable) EXPECT_EQ(next(row.cron, row.after), row.expected) << row.cron;
}

TEST(Cron, RefusesWhatItDoesNotKnowAndSaysWhichField) {
  constexpr struct {
    const char *cron, *said;
  } kTable[] = {
      {"", "needs five fields"},
      {"* * * *", "it has 4 words"},
      {"* * * * * *", "it has 6 words"},
      {"60 * * * *", "'60' in its minute field, which takes 0 to 59"},
      {"* 24 * * *", "'24' in its hour field, which takes 0 to 23"},
      {"* * 0 * *", "'0' in its day of month field, which takes 1 to 31"},
      {"* * * 13 *", "'13' in its month field, which takes 1 to 12 or JAN to DEC"},
      {"* * * * 8", "'8' in its day of week field, which takes 0 to 7 or SUN to SAT"},
      {"* * * * MONDAY", "'MONDAY' in its day of week field"},
      {"MON * * * *", "'MON' in its minute field"},
      {"-1 * * * *", "'' in its minute field"},
      {"+1 * * * *", "'+1' in its minute field"},
      {"1, * * * *", "'' in its minute field"},
      {"5-1 * * * *", "goes backwards"},
      {"* 22-2 * * *", "goes backwards"},
      {"5/10 * * * *", "has a step without a range"},
      {"*/0 * * * *", "has no step from 1 to 59"},
      {"*/60 * * * *", "has no step from 1 to 59"},
      {"*/ * * * *", "has no step"},
      {"1-5-9 * * * *", "'5-9' in its minute field"},
      {"** * * * *", "'**' in its minute field"},
      {"0x1 * * * *", "'0x1' in its minute field"},
      {"L * * * *", "'L' in its minute field"},
      {"0 0 30 2 *", "never comes"},
      {"0 0 31 2,4,6,9,11 *", "never comes"},
      {"@reboot", "'@reboot' is unknown"},
      {"@Daily", "'@Daily' is unknown"},
      {"1\x1b[31m * * * *", "\\"},
  };
  for (const auto& row : kTable) {
    const auto parsed = Cron::parse(row.cron);
    ASSERT_FALSE(parsed) << row.cron;
    EXPECT_EQ(parsed.error().code, Code::invalid_params);
    EXPECT_NE(parsed.error().message.find(row.said), std::string::npos) << row.cron << ": " << parsed.error().message;
  }
}

TEST(Cron, TheLeastIntervalIsExact) {
  const auto minutes = [](std::string_view text) { return Cron::parse(text)->least_interval() / 60; };
  EXPECT_EQ(minutes("* * * * *"), 1);
  EXPECT_EQ(minutes("*/7 * * * *"), 4) << "56, then 0";
  EXPECT_EQ(minutes("0 */6 * * *"), 360);
  EXPECT_EQ(minutes("59 23,0 * * *"), 60);
  EXPECT_EQ(minutes("30 4 * * mon-fri"), 1440);
  EXPECT_EQ(minutes("0 0 1 * *"), 28 * 1440);
  EXPECT_EQ(minutes("0 0 29 2 *"), (4 * 365 + 1) * 1440);
  EXPECT_EQ(minutes("0 0 1 * sun"), 1440) << "either day counts";
  EXPECT_EQ(minutes("@weekly"), 7 * 1440);
  EXPECT_EQ(minutes("0 0 * JAN,jul 7"), 7 * 1440);
}

// ---- clock changes ----

TEST(Cron, AFixedTimeInTheGapRunsWhenClocksHaveJumped) {
  // Berlin, 2026-03-29: 02:00 becomes 03:00, which is 01:00 UTC.
  EXPECT_EQ(next("30 2 * * *", "2026-03-28T12:00:00Z", zone("Europe/Berlin")), "2026-03-29T01:00:00Z");
  EXPECT_EQ(next("30 2 * * *", "2026-03-29T01:00:00Z", zone("Europe/Berlin")), "2026-03-30T00:30:00Z");
  EXPECT_EQ(next("30 3 * * *", "2026-03-28T12:00:00Z", zone("Europe/Berlin")), "2026-03-29T01:30:00Z");
}

TEST(Cron, AFixedTimeThatComesTwiceRunsAtItsFirst) {
  // Berlin, 2026-10-25: 03:00 becomes 02:00, so that 02:30 is at 00:30 and at 01:30 UTC.
  EXPECT_EQ(next("30 2 * * *", "2026-10-24T12:00:00Z", zone("Europe/Berlin")), "2026-10-25T00:30:00Z");
  EXPECT_EQ(next("30 2 * * *", "2026-10-25T00:30:00Z", zone("Europe/Berlin")), "2026-10-26T01:30:00Z");
}

TEST(Cron, AnyHourFollowsTheTimeThatPasses) {
  EXPECT_EQ(next("30 * * * *", "2026-03-29T00:30:00Z", zone("Europe/Berlin")), "2026-03-29T01:30:00Z");
  EXPECT_EQ(next("30 * * * *", "2026-10-25T00:30:00Z", zone("Europe/Berlin")), "2026-10-25T01:30:00Z");
  EXPECT_EQ(next("30 * * * *", "2026-10-25T01:30:00Z", zone("Europe/Berlin")), "2026-10-25T02:30:00Z");
}

TEST(Cron, KnowsZonesOfOddSteps) {
  // Lord Howe changes by half an hour; Apia had no 2011-12-30.
  EXPECT_EQ(next("15 2 * * *", "2026-10-03T00:00:00Z", zone("Australia/Lord_Howe")), "2026-10-03T15:30:00Z");
  EXPECT_EQ(next("0 12 30 12 *", "2011-12-29T23:00:00Z", zone("Pacific/Apia")), "2011-12-30T10:00:00Z");
  // Far behind the last transition that a file lists, by its rule.
  EXPECT_EQ(next("30 2 * * *", "2062-03-25T12:00:00Z", zone("Europe/Berlin")), "2062-03-26T01:00:00Z");
}

// Minute by minute, by another definition: a minute of the zone's clock is reached, reached again, or jumped over.
std::optional<std::int64_t> by_hand(const std::string& cron, std::int64_t after, const Zone& where,
                                    std::int64_t until) {
  const auto utc = Cron::parse(cron);
  const bool is_any_hour = cron.substr(cron.find(' ') + 1).starts_with('*');
  const auto matches = [&](std::int64_t local) { return utc->next(local - 1, Zone()) == local; };
  for (std::int64_t moment = after / 60 * 60 + 60; moment <= until; moment += 60) {
    const std::int64_t local = moment + where.offset_at(moment), before = moment - 60 + where.offset_at(moment - 60);
    if (is_any_hour) {
      if (matches(local)) return moment;
      continue;
    }
    for (std::int64_t skipped = before + 60; skipped < local; skipped += 60) {
      if (matches(skipped)) return moment;
    }
    bool is_repeat = false;
    for (std::int64_t earlier = moment - 60; earlier > moment - 4 * 3600; earlier -= 60) {
      is_repeat |= earlier + where.offset_at(earlier) == local;
    }
    if (!is_repeat && matches(local)) return moment;
  }
  return std::nullopt;
}

TEST(Cron, AgreesWithGoingThroughEveryMinute) {
  std::mt19937 random(20260301);
  const auto pick = [&](const std::vector<std::string>& words) { return words[random() % words.size()]; };
  const Zone zones[] = {Zone(),
                        zone("Europe/Berlin"),
                        zone("America/New_York"),
                        zone("Australia/Lord_Howe"),
                        zone("Asia/Kolkata"),
                        zone("America/Sao_Paulo")};
  int found = 0;
  for (int round = 0; round < 120; ++round) {
    const std::string cron = pick({"*", "0", "30", "*/7", "15,45", "10-20/5"}) + " " +
                             pick({"*", "2", "0", "1-3", "23", "*/6", "2,3"}) + " " +
                             pick({"*", "29", "*/2", "25-31"}) + " * " + pick({"*", "0", "SUN", "1-5"});
    const Zone& where = zones[random() % std::size(zones)];
    // Around a clock change of the zone in every other round.
    constexpr const char* kAround[] = {"2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z", "2026-03-08T00:00:00Z",
                                       "2026-11-01T00:00:00Z", "2026-04-04T10:00:00Z", "2026-10-03T10:00:00Z",
                                       "2018-11-03T20:00:00Z", "2018-02-17T20:00:00Z"};
    const std::int64_t after =
        at(kAround[random() % std::size(kAround)]) + static_cast<std::int64_t>(random() % 40'000);
    const std::int64_t until = after + 4 * 86'400;
    const auto expected = by_hand(cron, after, where, until);
    const auto got = Cron::parse(cron)->next(after, where);
    ASSERT_TRUE(got) << cron;
    if (expected) {
      ++found;
      EXPECT_EQ(*got, *expected) << cron << " in " << where.name() << " after " << format_rfc3339(after * 1000) << ": "
                                 << format_rfc3339(*got * 1000) << ", by hand " << format_rfc3339(*expected * 1000);
    } else {
      EXPECT_GT(*got, until) << cron << " in " << where.name() << " after " << format_rfc3339(after * 1000);
    }
  }
  EXPECT_GT(found, 60);
}

// ---- zones ----

TEST(Zone, AgreesWithTheCLibrary) {
  const char* before = std::getenv("TZ");
  const std::string kept = before != nullptr ? before : "";
  std::mt19937_64 random(7);
  for (const char* name : {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu",
                           "America/Sao_Paulo", "Africa/Casablanca", "Europe/Dublin", "America/Godthab"}) {
    const Zone rules = zone(name);
    ::setenv("TZ", (std::string(":") + name).c_str(), 1);
    ::tzset();
    for (int i = 0; i < 3000; ++i) {
      const std::int64_t moment =
          static_cast<std::int64_t>(random() % 5'000'000'000ULL) - 1'000'000'000;  // 1938 to 2096
      const std::time_t time = moment;
      std::tm local{};
      ::localtime_r(&time, &local);
      ASSERT_EQ(rules.offset_at(moment), local.tm_gmtoff) << name << " at " << format_rfc3339(moment * 1000);
    }
  }
  kept.empty() ? ::unsetenv("TZ") : ::setenv("TZ", kept.c_str(), 1);
  ::tzset();
}

TEST(Zone, RefusesWhatIsNoZone) {
  for (const char* name :
       {"", "Europe/Atlantis", "../../../etc/passwd", "/etc/passwd", "Europe", "zone.tab", "UTC\n"}) {
    EXPECT_FALSE(Zone::load(name)) << name;
  }
  EXPECT_FALSE(Zone::parse("TZif2", "short"));
  EXPECT_TRUE(Zone::load("UTC"));
}

// ---- times ----

TEST(Time, ReadsRfc3339) {
  EXPECT_EQ(*parse_rfc3339("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(*parse_rfc3339("2026-03-01T09:00:00+01:00"), *parse_rfc3339("2026-03-01T08:00:00Z"));
  EXPECT_EQ(*parse_rfc3339("2026-03-01t09:00:00.25z"), *parse_rfc3339("2026-03-01T09:00:00Z") + 250);
  EXPECT_EQ(*parse_rfc3339("1969-12-31T23:59:59-00:30"), 1'799'000);
  EXPECT_EQ(format_rfc3339(-1), "1969-12-31T23:59:59Z");
  EXPECT_EQ(format_rfc3339(4'102'444'799'000), "2099-12-31T23:59:59Z");
}

TEST(Time, RefusesWhatIsNoTime) {
  for (const char* text :
       {"2026-03-01", "2026-03-01T09:00Z", "2026-03-01T09:00:00", "2026-03-01 09:00:00Z", "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z", "2026-03-01T24:00:00Z", "2026-03-01T23:59:60Z", "2026-03-01T09:00:00+1:00",
        "2026-03-01T09:00:00+24:00", "2026-03-01T09:00:00.Z", "2026-03-01T09:00:00Zx", "2026-3-1T09:00:00Z",
        "2026-03-01T09:00:00.1234567890Z", "+026-03-01T09:00:00Z", "2026-03-01T09:00:00 Z"}) {
    EXPECT_FALSE(Schedule::parse(text)) << text;
  }
}

TEST(Schedule, RunsOnceAtATimeAndAgainByCron) {
  const auto once = Schedule::parse("2026-03-01T09:00:00Z"), daily = Schedule::parse("@daily");
  ASSERT_TRUE(once && daily);
  EXPECT_FALSE(once->is_periodic());
  EXPECT_TRUE(daily->is_periodic());
  const std::int64_t moment = at("2026-03-01T09:00:00Z") * 1000;
  EXPECT_EQ(once->next_ms(moment - 1, {}), moment);
  EXPECT_EQ(once->next_ms(moment, {}), std::nullopt);
  EXPECT_EQ(daily->next_ms(moment, {}), at("2026-03-02T00:00:00Z") * 1000);
  EXPECT_FALSE(Schedule::parse(std::string(257, '*')));
}

}  // namespace
}  // namespace sallyport::calendar

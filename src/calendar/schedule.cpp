#include "calendar/schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <span>

namespace sallyport::calendar {
namespace {

constexpr std::int64_t kDay = 86'400, kHour = 3600, kMinute = 60;
// February 29 is missing for up to eight years (1896 to 1904, 2096 to 2104).
constexpr std::int64_t kFurthestDays = 9 * 366;

constexpr std::array<std::string_view, 12> kMonths = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                                      "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
constexpr std::array<std::string_view, 7> kWeekdays = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

struct FieldKind {
  std::string_view name;
  int least, most;
  std::span<const std::string_view> names = {};
};
constexpr std::array<FieldKind, 5> kFields = {{{"minute", 0, 59},
                                               {"hour", 0, 23},
                                               {"day of month", 1, 31},
                                               {"month", 1, 12, kMonths},
                                               {"day of week", 0, 7, kWeekdays}}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kNicknames = {{{"@hourly", "0 * * * *"},
                                                                                      {"@daily", "0 0 * * *"},
                                                                                      {"@midnight", "0 0 * * *"},
                                                                                      {"@weekly", "0 0 * * 0"},
                                                                                      {"@monthly", "0 0 1 * *"},
                                                                                      {"@yearly", "0 0 1 1 *"},
                                                                                      {"@annually", "0 0 1 1 *"}}};

Error wrong(const std::string& what) { return Error::make(Code::invalid_params, "the schedule " + what); }

Error wrong(const FieldKind& kind, std::string_view word, const std::string& what) {
  return wrong("has '" + escape_for_display(word) + "' in its " + std::string(kind.name) + " field, which " + what);
}

bool equals_ignoring_case(std::string_view a, std::string_view upper) {
  if (a.size() != upper.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const char c = a[i] >= 'a' && a[i] <= 'z' ? static_cast<char>(a[i] - 'a' + 'A') : a[i];
    if (c != upper[i]) return false;
  }
  return true;
}

std::optional<int> parse_digits(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text[0] < '0' || text[0] > '9' || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

Result<int> parse_value(const FieldKind& kind, std::string_view word) {
  for (std::size_t i = 0; i < kind.names.size(); ++i) {
    if (equals_ignoring_case(word, kind.names[i])) return static_cast<int>(i) + kind.least;
  }
  const auto value = parse_digits(word);
  if (value && *value >= kind.least && *value <= kind.most) return *value;
  return wrong(
      kind, word,
      "takes " + std::to_string(kind.least) + " to " + std::to_string(kind.most) +
          (kind.names.empty() ? "" : " or " + std::string(kind.names[0]) + " to " + std::string(kind.names.back())));
}

// One of the words between commas: *, n, a-b, each but n with /step.
Result<std::uint64_t> parse_word(const FieldKind& kind, std::string_view word) {
  const std::size_t slash = word.find('/');
  const std::string_view range = word.substr(0, slash);
  const std::size_t dash = range.find('-');
  int first = kind.least, last = kind.most, step = 1;
  if (range != "*") {
    TRY(first, parse_value(kind, range.substr(0, dash)));
    last = first;
    if (dash != std::string_view::npos) {
      TRY(last, parse_value(kind, range.substr(dash + 1)));
      // "SAT-SUN": Sunday is the seventh day too.
      if (last == 0 && first > 0 && kind.most == 7) last = 7;
      if (last < first) return wrong(kind, word, "goes backwards; write two ranges with a comma");
    }
  }
  if (slash != std::string_view::npos) {
    if (range != "*" && dash == std::string_view::npos) return wrong(kind, word, "has a step without a range");
    const auto given = parse_digits(word.substr(slash + 1));
    if (!given || *given < 1 || *given > kind.most) {
      return wrong(kind, word, "has no step from 1 to " + std::to_string(kind.most));
    }
    step = *given;
  }
  std::uint64_t bits = 0;
  for (int value = first; value <= last; value += step) bits |= 1ULL << (kind.most == 7 && value == 7 ? 0 : value);
  return bits;
}

Result<std::uint64_t> parse_field(const FieldKind& kind, std::string_view text) {
  std::uint64_t bits = 0;
  for (;;) {
    const std::size_t comma = text.find(',');
    TRY(const std::uint64_t word, parse_word(kind, text.substr(0, comma)));
    bits |= word;
    if (comma == std::string_view::npos) return bits;
    text.remove_prefix(comma + 1);
  }
}

std::chrono::year_month_day date_of(std::int64_t day) { return std::chrono::sys_days(std::chrono::days(day)); }

std::int64_t floor_divide(std::int64_t value, std::int64_t by) { return value / by - (value % by < 0 ? 1 : 0); }

bool has_bit(std::uint64_t bits, unsigned bit) { return (bits >> bit & 1) != 0; }

}  // namespace

Result<Cron> Cron::parse(std::string_view text) {
  for (const auto& [nickname, meaning] : kNicknames) {
    if (text == nickname) return parse(meaning);
  }
  if (text.starts_with('@')) {
    return wrong("'" + escape_for_display(text) +
                 "' is unknown; there are @hourly @daily @midnight @weekly @monthly @yearly "
                 "@annually");
  }
  std::array<std::string_view, 5> fields;
  std::size_t count = 0;
  for (std::size_t at = text.find_first_not_of(" \t"); at != std::string_view::npos; ++count) {
    const std::size_t end = std::min(text.find_first_of(" \t", at), text.size());
    if (count < fields.size()) fields.at(count) = text.substr(at, end - at);
    at = text.find_first_not_of(" \t", end);
  }
  if (count != fields.size()) {
    return wrong(
        "needs five fields (minute hour day-of-month month day-of-week), a name such as @daily or a time "
        "such as 2026-03-01T09:00:00Z; it has " +
        std::to_string(count) + (count == 1 ? " word" : " words"));
  }
  Cron cron;
  std::uint64_t* const targets[] = {&cron.minutes_, &cron.hours_, &cron.days_, &cron.months_, &cron.weekdays_};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    TRY(*targets[i], parse_field(kFields.at(i), fields.at(i)));
  }
  cron.is_any_hour_ = fields[1].starts_with('*');
  cron.is_any_day_ = fields[2].starts_with('*');
  cron.is_any_weekday_ = fields[4].starts_with('*');
  if (!cron.next(0, Zone())) return wrong("names a day that never comes");
  return cron;
}

// As cron has always had it: where both day fields are restricted, either will do.
bool Cron::has_day(std::int64_t day) const {
  const auto date = date_of(day);
  if (!has_bit(months_, static_cast<unsigned>(date.month()))) return false;
  const bool has_date = has_bit(days_, static_cast<unsigned>(date.day()));
  const bool has_weekday = has_bit(weekdays_, static_cast<unsigned>(((day + 4) % 7 + 7) % 7));
  if (is_any_day_ || is_any_weekday_) return has_date && has_weekday;
  return has_date || has_weekday;
}

std::optional<std::int64_t> Cron::next_on(std::int64_t day, std::int64_t after, const Zone& zone) const {
  // Where no clock changes nearby the first that is later is the next.
  const std::int32_t offset = zone.offset_at((day - 1) * kDay);
  const bool is_plain = offset == zone.offset_at((day + 2) * kDay);
  std::optional<std::int64_t> best;
  const auto offer = [&](std::int64_t moment) {
    if (moment > after && (!best || moment < *best)) best = moment;
  };
  for (unsigned hour = 0; hour < 24; ++hour) {
    if (!has_bit(hours_, hour)) continue;
    for (unsigned minute = 0; minute < 60; ++minute) {
      if (!has_bit(minutes_, minute)) continue;
      const std::int64_t local = day * kDay + hour * kHour + minute * kMinute;
      if (is_plain && local - offset > after) return local - offset;
      if (is_plain) continue;
      const Zone::Moments moments = zone.moments_of(local);
      if (moments.count > 0) offer(moments.first);
      if (moments.count > 1 && is_any_hour_) offer(moments.second);
      if (moments.count == 0 && !is_any_hour_) offer(moments.gap_end);
    }
  }
  return best;
}

std::optional<std::int64_t> Cron::next(std::int64_t after, const Zone& zone) const {
  // From the day before: clocks may have been set back over midnight.
  const std::int64_t today = floor_divide(after + zone.offset_at(after), kDay);
  for (std::int64_t day = today - 1; day <= today + kFurthestDays; ++day) {
    if (!has_day(day)) continue;
    const auto found = next_on(day, after, zone);
    if (!found) continue;
    const auto next_day = has_day(day + 1) ? next_on(day + 1, after, zone) : std::nullopt;
    return next_day ? std::min(*found, *next_day) : *found;
  }
  return std::nullopt;
}

std::int64_t Cron::least_interval() const {
  std::int64_t first = -1, last = -1, least = INT64_MAX;
  for (unsigned minute = 0; minute < 24 * 60; ++minute) {
    if (!has_bit(hours_, minute / 60) || !has_bit(minutes_, minute % 60)) continue;
    if (first < 0) first = minute * kMinute;
    if (last >= 0) least = std::min(least, minute * kMinute - last);
    last = minute * kMinute;
  }
  // From the last run of a day to the first of the next that has one.
  std::int64_t before = -1;
  for (std::int64_t day = 0; day <= 2 * kFurthestDays; ++day) {
    if (!has_day(day)) continue;
    if (before >= 0) least = std::min(least, (day - before) * kDay - last + first);
    before = day;
  }
  return least;
}

Result<std::int64_t> parse_rfc3339(std::string_view text) {
  const Error malformed = wrong("is no time such as 2026-03-01T09:00:00Z or 2026-03-01T09:00:00+01:00");
  const auto number = [&](std::size_t at, std::size_t digits) -> std::optional<int> {
    if (at + digits > text.size()) return std::nullopt;
    for (std::size_t i = at; i < at + digits; ++i) {
      if (text[i] < '0' || text[i] > '9') return std::nullopt;
    }
    return parse_digits(text.substr(at, digits));
  };
  const auto year = number(0, 4), month = number(5, 2), day = number(8, 2);
  const auto hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!year || !month || !day || !hour || !minute || !second || text[4] != '-' || text[7] != '-' ||
      (text[10] != 'T' && text[10] != 't') || text[13] != ':' || text[16] != ':') {
    return malformed;
  }
  std::size_t at = 19;
  std::int64_t millis = 0;
  if (at < text.size() && text[at] == '.') {
    const std::size_t end = std::min(text.find_first_not_of("0123456789", at + 1), text.size());
    if (end == at + 1 || end > at + 10) return malformed;
    for (std::size_t i = 0, scale = 100; i < 3; ++i, scale /= 10) {
      if (at + 1 + i < end) millis += static_cast<std::int64_t>(scale) * (text[at + 1 + i] - '0');
    }
    at = end;
  }
  std::int64_t offset = 0;
  if (at + 6 == text.size() && (text[at] == '+' || text[at] == '-') && text[at + 3] == ':') {
    const auto hours = number(at + 1, 2), minutes = number(at + 4, 2);
    if (!hours || !minutes || *hours > 23 || *minutes > 59) return malformed;
    offset = (*hours * kHour + *minutes * kMinute) * (text[at] == '-' ? -1 : 1);
  } else if (at + 1 != text.size() || (text[at] != 'Z' && text[at] != 'z')) {
    return malformed;
  }
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 59) return wrong("is a time that does not exist");
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return (days * kDay + *hour * kHour + *minute * kMinute + *second - offset) * 1000 + millis;
}

std::string format_rfc3339(std::int64_t unix_ms) {
  const std::int64_t seconds = floor_divide(unix_ms, 1000);
  const std::int64_t day = floor_divide(seconds, kDay), rest = seconds - day * kDay;
  const auto date = date_of(day);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), static_cast<int>(rest / 3600),
                static_cast<int>(rest / 60 % 60), static_cast<int>(rest % 60));
  return text.data();
}

Result<Schedule> Schedule::parse(std::string_view text) {
  if (text.size() > kMaxScheduleBytes) return wrong("is longer than " + std::to_string(kMaxScheduleBytes) + " bytes");
  if (text.size() > 4 && text[4] == '-' && text.find(' ') == std::string_view::npos) {
    TRY(const std::int64_t moment, parse_rfc3339(text));
    return Schedule(moment);
  }
  TRY(const Cron cron, Cron::parse(text));
  return Schedule(cron);
}

Millis Schedule::least_interval() const { return std::chrono::seconds(std::get<Cron>(when_).least_interval()); }

std::optional<std::int64_t> Schedule::next_ms(std::int64_t after_ms, const Zone& zone) const {
  if (const auto* moment = std::get_if<std::int64_t>(&when_)) {
    return *moment > after_ms ? std::optional(*moment) : std::nullopt;
  }
  const auto next = std::get<Cron>(when_).next(floor_divide(after_ms, 1000), zone);
  return next ? std::optional(*next * 1000) : std::nullopt;
}

}  // namespace sallyport::calendar

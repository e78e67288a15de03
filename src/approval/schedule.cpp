#include "approval/schedule.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace sallyport::approval {
namespace {

using Set = std::bitset<64>;

Error fault(std::string_view why) { return Error::make(Code::invalid_params, "the schedule " + std::string(why)); }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text[0] == '-' || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct FieldKind {
  int least, most;
  std::string_view names;  // three letters each, from `least` on
};
constexpr std::array<FieldKind, 5> kFields = {{{0, 59, ""},
                                               {0, 23, ""},
                                               {1, 31, ""},
                                               {1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
                                               {0, 7, "sunmontuewedthufrisat"}}};

std::optional<int> point(const FieldKind& kind, std::string_view text) {
  if (text.size() == 3 && !kind.names.empty()) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    for (std::size_t i = 0; i + 3 <= kind.names.size(); i += 3) {
      if (kind.names.substr(i, 3) == lower) return kind.least + static_cast<int>(i / 3);
    }
  }
  const auto value = number(text);
  return value && *value >= kind.least && *value <= kind.most ? value : std::nullopt;
}

std::optional<Set> parse_field(const FieldKind& kind, std::string_view text) {
  Set set;
  for (const std::string_view item : split(text, ',')) {
    const auto stepped = split(item, '/');
    if (stepped.size() > 2) return std::nullopt;
    const auto step = stepped.size() == 2 ? number(stepped[1]) : 1;
    const auto ends = split(stepped[0], '-');
    std::optional<int> first, last;
    if (stepped[0] == "*") {
      first = kind.least, last = kind.most;
    } else if (ends.size() <= 2) {
      first = point(kind, ends[0]);
      last = ends.size() == 2 ? point(kind, ends[1]) : stepped.size() == 2 ? kind.most : first;
    }
    if (!step || *step < 1 || !first || !last || *first > *last) return std::nullopt;
    for (int value = *first; value <= *last; value += *step) set.set(static_cast<std::size_t>(value));
  }
  return set;
}

// The shortest way from one run to the next, looking at four years and a day.
Result<Schedule> parse_cron(std::string_view text) {
  std::vector<std::string_view> words = split(text, ' ');
  std::erase(words, std::string_view());
  if (words.size() != kFields.size()) return fault("is neither a cron expression nor an RFC 3339 time");
  std::array<Set, 5> sets;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto set = parse_field(kFields.at(i), words[i]);
    if (!set) return fault("has a field that is none: " + escape_for_display(words[i]));
    sets.at(i) = *set;
  }
  if (sets[4].test(7)) sets[4].set(0);
  std::vector<int> minutes;
  for (int minute = 0; minute < 24 * 60; ++minute) {
    if (sets[1].test(static_cast<std::size_t>(minute / 60)) && sets[0].test(static_cast<std::size_t>(minute % 60))) {
      minutes.push_back(minute);
    }
  }
  std::int64_t least = INT64_MAX;
  for (std::size_t i = 1; i < minutes.size(); ++i) least = std::min<std::int64_t>(least, minutes[i] - minutes[i - 1]);
  const bool either = words[2][0] != '*' && words[4][0] != '*';
  constexpr std::chrono::sys_days kFrom = std::chrono::year{2024} / 1 / 1;
  std::optional<int> previous;
  for (int day = 0; day <= 4 * 366; ++day) {
    const std::chrono::sys_days date = kFrom + std::chrono::days(day);
    const std::chrono::year_month_day civil(date);
    const bool by_date = sets[2].test(static_cast<unsigned>(civil.day()));
    const bool by_week = sets[4].test(std::chrono::weekday(date).c_encoding());
    if (!sets[3].test(static_cast<unsigned>(civil.month())) || !(either ? by_date || by_week : by_date && by_week)) {
      continue;
    }
    if (previous) {
      least = std::min<std::int64_t>(least, (day - *previous) * 24 * 60 - minutes.back() + minutes.front());
    }
    previous = day;
  }
  if (!previous) return fault("would never run");
  // Once in four years, then: at least this long.
  if (least == INT64_MAX) least = 4 * 365 * 24 * 60;
  return Schedule{.is_once = false, .at_unix_ms = 0, .least_interval = Millis(least * 60'000)};
}

// 2026-03-01T12:00:00Z, 2026-03-01T12:00:00.5+02:00
Result<Schedule> parse_time(std::string_view text) {
  const auto digits = [&](std::size_t at, std::size_t count) -> std::optional<int> {
    for (std::size_t i = at; i < at + count; ++i) {
      if (i >= text.size() || text[i] < '0' || text[i] > '9') return std::nullopt;
    }
    return number(text.substr(at, count));
  };
  const auto year = digits(0, 4), month = digits(5, 2), day = digits(8, 2);
  const auto hour = digits(11, 2), minute = digits(14, 2), second = digits(17, 2);
  const Error none = fault("is neither a cron expression nor an RFC 3339 time");
  if (!year || !month || !day || !hour || !minute || !second) return none;
  if (text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't') || text[13] != ':' || text[16] != ':') {
    return none;
  }
  std::size_t at = 19;
  if (at < text.size() && text[at] == '.') {
    const std::size_t from = ++at;
    while (digits(at, 1)) ++at;
    if (at == from) return none;
  }
  std::int64_t offset = 0;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
    const auto hours = digits(at + 1, 2), rest = digits(at + 4, 2);
    if (!hours || !rest || *hours > 23 || *rest > 59 || text[at + 3] != ':' || text.size() != at + 6) return none;
    offset = (text[at] == '-' ? -1 : 1) * (*hours * 60 + *rest);
  } else if (at + 1 != text.size() || (text[at] != 'Z' && text[at] != 'z')) {
    return none;
  }
  const std::chrono::year_month_day date(std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return fault("names a time that does not exist");
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t minutes = (days * 24 + *hour) * 60 + *minute - offset;
  return Schedule{.is_once = true, .at_unix_ms = (minutes * 60 + *second) * 1000, .least_interval = Millis(0)};
}

}  // namespace

Result<Schedule> parse_schedule(std::string_view text) {
  struct Named {
    std::string_view name, cron;
  };
  constexpr Named kNamed[] = {{"@hourly", "0 * * * *"},  {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
                              {"@weekly", "0 0 * * 0"},  {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
                              {"@annually", "0 0 1 1 *"}};
  for (const Named& named : kNamed) {
    if (named.name == text) return parse_cron(named.cron);
  }
  if (text.size() > 256) return fault("is too long");
  return text.size() >= 20 && text.find(' ') == std::string_view::npos ? parse_time(text) : parse_cron(text);
}

}  // namespace sallyport::approval

#include "calendar/zone.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>

#include "os/files.h"

namespace sallyport::calendar {
namespace {

constexpr std::size_t kMaxZoneBytes = 256U << 10;
constexpr std::int64_t kDay = 86'400;
constexpr std::int32_t kMostOffset = 26 * 3600;  // RFC 8536: further than any zone ever was
constexpr std::size_t kHeaderBytes = 44;

std::int64_t days_of(int year, unsigned month, unsigned day) {
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  return std::chrono::sys_days(date).time_since_epoch().count();
}

int year_of(std::int64_t seconds) {
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::sys_seconds(std::chrono::seconds(seconds)));
  return static_cast<int>(std::chrono::year_month_day(days).year());
}

bool is_leap(int year) { return std::chrono::year(year).is_leap(); }

Error not_a_zone(const std::string& name) {
  return Error::make(Code::invalid_params, "the rules of time zone '" + name + "' cannot be read");
}

std::int64_t big_endian(std::string_view bytes) {
  std::uint64_t value = bytes.size() == 4 && (bytes[0] & 0x80) != 0 ? ~0ULL : 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return static_cast<std::int64_t>(value);
}

struct Header {
  std::size_t ut_flags = 0, standard_flags = 0, leaps = 0, transitions = 0, types = 0, characters = 0;
  std::size_t bytes(std::size_t time_bytes) const {
    return transitions * (time_bytes + 1) + types * 6 + characters + leaps * (time_bytes + 4) + standard_flags +
           ut_flags;
  }
};

std::optional<Header> read_header(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes || !bytes.starts_with("TZif")) return std::nullopt;
  Header header;
  std::size_t* const fields[] = {&header.ut_flags,    &header.standard_flags, &header.leaps,
                                 &header.transitions, &header.types,          &header.characters};
  for (std::size_t i = 0; i < std::size(fields); ++i) {
    const std::int64_t count = big_endian(bytes.substr(20 + i * 4, 4));
    if (count < 0 || count > static_cast<std::int64_t>(kMaxZoneBytes)) return std::nullopt;
    *fields[i] = static_cast<std::size_t>(count);
  }
  return header;
}

}  // namespace

// Reads `CET-1CEST,M3.5.0,M10.5.0/3`; every part is optional from behind.
class Zone::RuleReader {
 public:
  explicit RuleReader(std::string_view text) : left_(text) {}

  std::optional<Rule> read() {
    Rule rule;
    std::int32_t west = 0;
    if (!skip_name() || !read_time(west)) return std::nullopt;
    rule.standard = -west;
    if (left_.empty()) return rule;
    if (!skip_name()) return std::nullopt;
    rule.daylight = rule.standard + 3600;
    if (!left_.empty() && left_[0] != ',') {
      if (!read_time(west)) return std::nullopt;
      rule.daylight = -west;
    }
    rule.begin = read_change();
    rule.end = read_change();
    if (!rule.begin || !rule.end || !left_.empty()) return std::nullopt;
    return rule;
  }

 private:
  bool take(char c) {
    if (left_.empty() || left_[0] != c) return false;
    left_.remove_prefix(1);
    return true;
  }

  bool skip_name() {
    const bool is_quoted = take('<');
    const auto end = std::find_if(left_.begin(), left_.end(), [&](char c) {
      return is_quoted ? c == '>' : !((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'));
    });
    if (end == left_.begin()) return false;
    left_.remove_prefix(static_cast<std::size_t>(end - left_.begin()));
    return !is_quoted || take('>');
  }

  bool read_number(int least, int most, int& value) {
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    if (error != std::errc() || left_[0] == '-' || value < least || value > most) return false;
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return true;
  }

  // [+-]hh[:mm[:ss]]
  bool read_time(std::int32_t& seconds) {
    const bool is_negative = take('-');
    if (!is_negative) take('+');
    int hours = 0, minutes = 0, rest = 0;
    if (!read_number(0, 167, hours)) return false;
    if (take(':') && !read_number(0, 59, minutes)) return false;
    if (take(':') && !read_number(0, 59, rest)) return false;
    seconds = hours * 3600 + minutes * 60 + rest;
    if (is_negative) seconds = -seconds;
    return true;
  }

  std::optional<Change> read_change() {
    Change change;
    if (!take(',')) return std::nullopt;
    if (take('M')) {
      if (!read_number(1, 12, change.month) || !take('.') || !read_number(1, 5, change.week) || !take('.') ||
          !read_number(0, 6, change.day)) {
        return std::nullopt;
      }
    } else {
      const bool is_julian = take('J');
      change.kind = is_julian ? Change::Kind::julian : Change::Kind::day_of_year;
      if (!read_number(is_julian ? 1 : 0, 365, change.day)) return std::nullopt;
    }
    if (take('/') && !read_time(change.time)) return std::nullopt;
    return change;
  }

  std::string_view left_;
};

std::int64_t Zone::Change::in_year(int year) const {
  std::int64_t days = 0;
  if (kind == Kind::month_week_day) {
    const std::int64_t first = days_of(year, static_cast<unsigned>(month), 1);
    const int weekday = static_cast<int>(((first + 4) % 7 + 7) % 7);  // 1970-01-01 was a Thursday
    days = first + (day - weekday + 7) % 7 + std::int64_t{week - 1} * 7;
    const std::int64_t next_month =
        month == 12 ? days_of(year + 1, 1, 1) : days_of(year, static_cast<unsigned>(month) + 1, 1);
    while (days >= next_month) days -= 7;  // week 5: the last one
  } else {
    // A Julian day never counts February 29.
    days = days_of(year, 1, 1) + (kind == Kind::julian ? day - 1 + (day >= 60 && is_leap(year) ? 1 : 0) : day);
  }
  return days * kDay + time;
}

std::int32_t Zone::Rule::offset_at(std::int64_t moment) const {
  if (!begin) return standard;
  const int year = year_of(moment + standard);
  const std::int64_t starts = begin->in_year(year) - standard, ends = end->in_year(year) - daylight;
  const bool is_daylight =
      starts < ends ? moment >= starts && moment < ends : moment >= starts || moment < ends;  // north : south
  return is_daylight ? daylight : standard;
}

Result<Zone> Zone::parse(std::string_view tzif, std::string name) {
  const Error broken = not_a_zone(name);
  const auto first = read_header(tzif);
  // The first block has 32-bit times; all that is kept up to date is in the second.
  if (!first || tzif[4] < '2') return broken;
  const std::size_t skipped = kHeaderBytes + first->bytes(4);
  const auto header = skipped <= tzif.size() ? read_header(tzif.substr(skipped)) : std::nullopt;
  if (!header || header->types == 0) return broken;
  const std::string_view data = tzif.substr(skipped + kHeaderBytes);
  if (data.size() < header->bytes(8)) return broken;

  const std::string_view types = data.substr(header->transitions * 9, header->types * 6);
  const auto offset_of = [&](std::size_t type) -> std::optional<std::int32_t> {
    if (type >= header->types) return std::nullopt;
    const std::int64_t offset = big_endian(types.substr(type * 6, 4));
    if (offset < -kMostOffset || offset > kMostOffset) return std::nullopt;
    return static_cast<std::int32_t>(offset);
  };
  Zone zone;
  zone.name_ = std::move(name);
  const auto before = offset_of(0);
  if (!before) return broken;
  zone.before_ = *before;
  for (std::size_t i = 0; i < header->transitions; ++i) {
    const auto offset = offset_of(static_cast<unsigned char>(data[header->transitions * 8 + i]));
    const std::int64_t moment = big_endian(data.substr(i * 8, 8));
    if (!offset || (i > 0 && moment <= zone.transitions_.back().moment)) return broken;
    zone.transitions_.push_back({moment, *offset});
  }
  std::string_view footer = data.substr(header->bytes(8));
  if (footer.size() < 2 || footer.front() != '\n' || footer.back() != '\n') return broken;
  footer = footer.substr(1, footer.size() - 2);
  if (!footer.empty()) {
    zone.after_ = RuleReader(footer).read();
    if (!zone.after_) return broken;
  }
  return zone;
}

Result<Zone> Zone::load(const std::string& name, const std::string& directory) {
  if (name == "UTC") return Zone();
  const bool is_plain = !name.empty() && name.size() <= 64 && name[0] != '/' && name.find("..") == std::string::npos &&
                        std::all_of(name.begin(), name.end(), [](char c) {
                          return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                                 c == '_' || c == '-' || c == '+' || c == '/';
                        });
  // Some of them are links to others.
  std::error_code missing;
  const std::string path = is_plain ? std::filesystem::canonical(directory + "/" + name, missing).string() : "";
  const auto rules = os::read_small_file(path, kMaxZoneBytes);
  if (missing || !rules) {
    return Error::make(Code::invalid_params, "there is no time zone '" + name + "'; names are like Europe/Berlin");
  }
  return parse(*rules, name);
}

std::int32_t Zone::offset_at(std::int64_t moment) const {
  const auto later = std::upper_bound(transitions_.begin(), transitions_.end(), moment,
                                      [](std::int64_t value, const Transition& each) { return value < each.moment; });
  if (later == transitions_.end() && after_) return after_->offset_at(moment);
  return later == transitions_.begin() ? before_ : std::prev(later)->offset;
}

Zone::Moments Zone::moments_of(std::int64_t local) const {
  // Clocks change at most once within two days; the offsets around it are all that can be meant.
  const std::int32_t early = offset_at(local - kDay), late = offset_at(local + kDay);
  Moments moments;
  for (const std::int32_t offset : {early, late}) {
    if (offset_at(local - offset) != offset || (moments.count == 1 && early == late)) continue;
    (moments.count++ == 0 ? moments.first : moments.second) = local - offset;
  }
  if (moments.count == 2 && moments.second < moments.first) std::swap(moments.first, moments.second);
  if (moments.count != 0) return moments;
  std::int64_t before = local - late, after = local - early;  // the jump lies in (before, after]
  while (before + 1 < after) {
    const std::int64_t middle = before + (after - before) / 2;
    (offset_at(middle) == early ? before : after) = middle;
  }
  moments.gap_end = after;
  return moments;
}

}  // namespace sallyport::calendar

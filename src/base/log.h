// Structured log lines: `time level event key=value ...`, or one JSON object per line.
//
//   log.info("session refused", {{"door", "control"}, {"why", error.describe()}});
//
// A line is written with one write(2), and takes no memory unless it is a long one. Values are escaped, so that no
// field can start a new line or move a terminal's cursor.
#pragma once

#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace sallyport {

// Refers to what it was made of: good until the end of the call it is made for.
class LogField {
 public:
  LogField(std::string_view key, std::string_view value) : key_(key), text_(value) {}
  LogField(std::string_view key, const char* value) : key_(key), text_(value) {}
  LogField(std::string_view key, const std::string& value) : key_(key), text_(value) {}
  LogField(std::string_view key, std::integral auto value) : key_(key) {
    digit_count_ = std::to_chars(digits_.data(), digits_.data() + digits_.size(), +value).ptr - digits_.data();
  }

  std::string_view key() const { return key_; }
  std::string_view value() const {
    return is_number() ? std::string_view(digits_.data(), static_cast<std::size_t>(digit_count_)) : text_;
  }
  bool is_number() const { return digit_count_ > 0; }

 private:
  std::string_view key_, text_;
  std::array<char, 20> digits_{};  // as many as any 64-bit number has, with its sign
  std::ptrdiff_t digit_count_ = 0;
};

enum class LogLevel : std::uint8_t { debug, info, warn, error };
enum class LogFormat : std::uint8_t { text, json };

class Log {
 public:
  // Does not own the fd.
  Log(int fd, LogFormat format, LogLevel least, const Clock& clock)
      : fd_(fd), format_(format), least_(least), clock_(clock) {}

  using Fields = std::initializer_list<LogField>;
  void debug(std::string_view event, Fields fields = {}) const { write(LogLevel::debug, event, fields); }
  void info(std::string_view event, Fields fields = {}) const { write(LogLevel::info, event, fields); }
  void warn(std::string_view event, Fields fields = {}) const { write(LogLevel::warn, event, fields); }
  void error(std::string_view event, Fields fields = {}) const { write(LogLevel::error, event, fields); }
  void write(LogLevel level, std::string_view event, Fields fields) const;

  // If the log is the file at `path`: whenever it has grown to so many bytes they are moved to `path`.1, in place of
  // what was there, and the log goes on empty. Others who append to the same file go on too.
  void rotate_at(std::string path, std::uint64_t most_bytes);

  bool wants(LogLevel level) const { return level >= least_; }

 private:
  void rotate() const;

  int fd_;
  LogFormat format_;
  LogLevel least_;
  const Clock& clock_;
  std::string path_;
  std::uint64_t most_bytes_ = UINT64_MAX;
  mutable std::atomic<std::uint64_t> bytes_ = 0;
};

// How often something may be told that others cause as often as they like: a few times at once, then once a second.
class LineBudget {
 public:
  static constexpr int kAtOnce = 64;

  // Whether to tell it now. If so: how many were left out since the last time.
  std::optional<std::uint64_t> take(SteadyTime now);
  bool is_full(SteadyTime now) const { return now >= full_at_; }
  std::uint64_t take_left_out() { return std::exchange(left_out_, 0); }

 private:
  SteadyTime full_at_{};
  std::uint64_t left_out_ = 0;
};

// Control characters, quotes, backslashes, bytes that are no UTF-8 and bidirectional overrides are
// shown as \n, \", \x1b or \u202e: safe inside quotes and on a terminal.
std::string escape_for_display(std::string_view text);
// The same for text of several lines that is shown by itself: line ends, tabs, quotes and backslashes stay.
std::string escape_text_for_display(std::string_view text);
// Whether a reader would not see all of it as it is.
inline bool is_deceptive_text(std::string_view text) { return escape_text_for_display(text) != text; }

}  // namespace sallyport

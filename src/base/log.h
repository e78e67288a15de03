// Structured log lines: `time level event key=value ...`, or one JSON object per line.
//
//   log.info("session refused", {{"door", "control"}, {"why", error.describe()}});
//
// A line is written with one write(2). Values are escaped, so that no field can start a new line or
// move a terminal's cursor.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace sallyport {

struct LogField {
  std::string_view key;
  std::string value;
  bool is_number = false;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  LogField(std::string_view k, std::integral auto v) : key(k), value(std::to_string(v)), is_number(true) {}
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

  bool wants(LogLevel level) const { return level >= least_; }

  // The line without its newline; what write() writes.
  std::string format(LogLevel level, std::string_view event, Fields fields) const;

 private:
  void write(LogLevel level, std::string_view event, Fields fields) const;

  int fd_;
  LogFormat format_;
  LogLevel least_;
  const Clock& clock_;
};

// Control characters, quotes, backslashes, bytes that are no UTF-8 and bidirectional overrides are
// shown as \n, \", \x1b or \u202e: safe inside quotes and on a terminal.
std::string escape_for_display(std::string_view text);
// The same for text of several lines that is shown by itself: line ends, tabs, quotes and backslashes stay.
std::string escape_text_for_display(std::string_view text);
// Whether a reader would not see all of it as it is.
inline bool is_deceptive_text(std::string_view text) { return escape_text_for_display(text) != text; }

}  // namespace sallyport

#include "base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <memory_resource>
#include <utility>

namespace sallyport {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"debug", "info", "warn", "error"};

// Of a line that needs no other memory.
constexpr std::size_t kUsualLine = 1024;

using Timestamp = std::array<char, 80>;  // room for any numbers
Timestamp timestamp(std::int64_t millis) {
  const std::time_t seconds = millis / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  Timestamp text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(millis % 1000));
  return text;
}

bool needs_quotes(std::string_view value) {
  if (value.empty()) return true;
  for (const char c : value) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || static_cast<unsigned char>(c) >= 0x7f) return true;
  }
  return false;
}

// Length of the UTF-8 sequence at the start of text and its code point; 0 where there is none.
std::size_t decode_utf8(std::string_view text, char32_t& point) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80 ? 1 : (lead >> 5) == 6 ? 2 : (lead >> 4) == 14 ? 3 : (lead >> 3) == 30 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  point = length == 1 ? lead : lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    point = (point << 6) | (byte(i) & 0x3f);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
  return point < kLeast.at(length) || point > 0x10ffff || is_surrogate ? 0 : length;
}

bool is_deceptive(char32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) ||  // C0, DEL, C1
         (point >= 0x200b && point <= 0x200f) ||             // zero width, direction marks
         (point >= 0x2028 && point <= 0x202e) ||             // separators, bidi overrides
         (point >= 0x2060 && point <= 0x206f) || point == 0x61c || point == 0xfeff ||
         (point >= 0xe0000 && point <= 0xe007f);  // tags
}

template <typename Text>
void append_escape(Text& out, const char* pattern, unsigned value) {
  std::array<char, 16> text{};
  const int length = std::snprintf(text.data(), text.size(), pattern, value);
  out.append(text.data(), static_cast<std::size_t>(length));
}

template <typename Text>
void append_utf16_escape(Text& out, char32_t point) {
  if (point < 0x10000) return append_escape(out, "\\u%04x", point);
  append_escape(out, "\\u%04x", 0xd800 + ((point - 0x10000) >> 10));
  append_escape(out, "\\u%04x", 0xdc00 + ((point - 0x10000) & 0x3ff));
}

template <typename Text>
void append_escaped(Text& out, std::string_view text) {
  while (!text.empty()) {
    char32_t point = 0;
    const std::size_t length = decode_utf8(text, point);
    if (length == 0) {
      // Not UTF-8: shown as the code point of the byte, so that the result is valid JSON text too.
      append_utf16_escape(out, static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    if (point == '\n') {
      out += "\\n";
    } else if (point == '"' || point == '\\') {
      out += '\\';
      out += static_cast<char>(point);
    } else if (is_deceptive(point)) {
      append_utf16_escape(out, point);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
}

void append_quoted(std::pmr::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text);
  out += '"';
}

void append_json_line(std::pmr::string& line, const Timestamp& time, std::string_view level, std::string_view event,
                      Log::Fields fields) {
  line += R"({"time":")";
  line += time.data();
  line += R"(","level":")";
  line += level;
  line += R"(","event":)";
  append_quoted(line, event);
  for (const LogField& field : fields) {
    line += ',';
    append_quoted(line, field.key());
    line += ':';
    field.is_number() ? void(line += field.value()) : append_quoted(line, field.value());
  }
  line += '}';
}

void append_text_line(std::pmr::string& line, const Timestamp& time, std::string_view level, std::string_view event,
                      Log::Fields fields) {
  line += time.data();
  line += ' ';
  line += level;
  line += ' ';
  append_escaped(line, event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key();
    line += '=';
    needs_quotes(field.value()) ? append_quoted(line, field.value()) : void(line += field.value());
  }
}

}  // namespace

std::string escape_for_display(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  append_escaped(out, text);
  return out;
}

std::string escape_text_for_display(std::string_view text) {
  constexpr std::string_view kKept = "\n\t\"\\";
  std::string out;
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find_first_of(kKept), text.size());
    out += escape_for_display(text.substr(0, plain));
    if (plain < text.size()) out.push_back(text[plain]);
    text.remove_prefix(std::min(plain + 1, text.size()));
  }
  return out;
}

void Log::write(LogLevel level, std::string_view event, Fields fields) const {
  if (!wants(level)) return;
  std::array<std::byte, kUsualLine> room;
  std::pmr::monotonic_buffer_resource memory(room.data(), room.size());
  std::pmr::string line(&memory);
  line.reserve(kUsualLine - 1);
  const Timestamp time = timestamp(clock_.unix_millis());
  const auto append_line = format_ == LogFormat::json ? append_json_line : append_text_line;
  append_line(line, time, kLevels.at(static_cast<std::size_t>(level)), event, fields);
  line += '\n';
  // A log that cannot be written must not stop the work it reports on.
  [[maybe_unused]] const ssize_t written = ::write(fd_, line.data(), line.size());
  // Exactly one of those who write at once finds that it is enough.
  const std::uint64_t before = bytes_.fetch_add(line.size());
  if (before < most_bytes_ && before + line.size() >= most_bytes_) rotate();
}

void Log::rotate_at(std::string path, std::uint64_t most_bytes) {
  struct stat log{}, file{};
  if (::fstat(fd_, &log) != 0 || !S_ISREG(log.st_mode) || ::lstat(path.c_str(), &file) != 0) return;
  if (log.st_ino != file.st_ino || log.st_dev != file.st_dev) return;
  path_ = std::move(path);
  most_bytes_ = most_bytes;
  bytes_ = static_cast<std::uint64_t>(log.st_size);
  if (bytes_ >= most_bytes_) rotate();
}

// Copied and cut rather than renamed: programs that were started earlier hold the same file.
void Log::rotate() const {
  const std::string old = path_ + ".1";
  ::unlink(old.c_str());
  const int to = ::open(old.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  std::array<char, 64U << 10> block;
  off_t at = 0;
  for (ssize_t count = 0; to >= 0 && (count = ::pread(fd_, block.data(), block.size(), at)) > 0; at += count) {
    // A full disk: what is cut is lost then, and there is room again.
    if (::write(to, block.data(), static_cast<std::size_t>(count)) != count) break;
  }
  if (to >= 0) ::close(to);
  [[maybe_unused]] const int cut = ::ftruncate(fd_, 0);
  bytes_ = 0;
}

std::optional<std::uint64_t> LineBudget::take(SteadyTime now) {
  constexpr std::chrono::seconds kEach{1};
  const SteadyTime full_at = std::max(full_at_, now) + kEach;
  if (full_at - now > kAtOnce * kEach) {
    ++left_out_;
    return std::nullopt;
  }
  full_at_ = full_at;
  return std::exchange(left_out_, 0);
}

}  // namespace sallyport

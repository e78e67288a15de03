#include "worker/read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/bytes.h"
#include "worker/sha256.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

// Where a page begins: a byte, and the number of the line it belongs to (0: not known).
struct Position {
  std::uint64_t byte = 0;
  std::uint64_t line = 1;
};

std::string to_cursor(const Position& at) { return std::to_string(at.byte) + ":" + std::to_string(at.line); }

Result<Position> parse_cursor(std::string_view text) {
  Position at;
  const char* const end = text.data() + text.size();
  const auto [colon, error] = std::from_chars(text.data(), end, at.byte);
  if (error == std::errc() && colon != end && *colon == ':') {
    const auto [rest, line_error] = std::from_chars(colon + 1, end, at.line);
    if (line_error == std::errc() && rest == end) return at;
  }
  return Error::invalid_param("params.cursor", "is not one that fs.read gave");
}

// The bytes of a file by position. A file of ordinary size is read once, as a whole.
class Source {
 public:
  explicit Source(int fd) : fd_(fd) {}

  Status load(std::uint64_t size) {
    if (size > kScanWindowBytes) return ok();
    TRY(whole_, pread_all(0, size));
    is_whole_ = true;
    return ok();
  }
  // A range of a whole file stays valid; as long as who takes its memory keeps that.
  bool is_whole() const { return is_whole_; }
  Bytes take_whole() { return std::move(whole_); }
  // At most `count` bytes from `at`; valid until the next call.
  Result<std::string_view> range(std::uint64_t at, std::uint64_t count) {
    if (is_whole_) return as_text(whole_.view()).substr(std::min<std::uint64_t>(at, whole_.size()), count);
    TRY(part_, pread_all(at, count));
    return as_text(part_.view());
  }

 private:
  Result<Bytes> pread_all(std::uint64_t at, std::uint64_t count) const {
    Bytes bytes;
    bytes.resize(count);
    std::size_t filled = 0;
    while (filled < count) {
      const ssize_t got = ::pread(fd_, bytes.data() + filled, count - filled, static_cast<off_t>(at + filled));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return path_error("read", errno);
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
  }

  int fd_;
  bool is_whole_ = false;
  Bytes whole_;
  Bytes part_;
};

// One pass over the whole file for what only a whole pass can tell.
struct Census {
  std::uint64_t lines = 0;
  std::string sha256;
  std::uint64_t start = 0;  // where the wanted line begins; the size if there is no such line
};

Result<Census> take_census(Source& source, std::uint64_t wanted_line, bool want_hash) {
  Census census;
  Sha256 hash;
  std::uint64_t at = 0;
  std::uint64_t newlines = 0;
  bool is_found = wanted_line <= 1;
  char last = '\n';
  while (true) {
    TRY(const std::string_view block, source.range(at, kScanWindowBytes));
    if (block.empty()) break;
    if (want_hash) hash.update(block);
    const std::uint64_t here = count_newlines(block);
    if (!is_found && newlines + here >= wanted_line - 1) {
      std::size_t pos = 0;
      for (std::uint64_t i = newlines; i < wanted_line - 1; ++i) pos = block.find('\n', pos) + 1;
      census.start = at + pos;
      is_found = true;
    }
    newlines += here;
    last = block.back();
    at += block.size();
  }
  census.lines = newlines + (last != '\n' ? 1 : 0);
  if (!is_found) census.start = at;
  if (want_hash) census.sha256 = hash.hex();
  return census;
}

// Lays whole lines into a page until it is full.
class Page {
 public:
  Page(const ReadRequest& request, Position at)
      : request_(request),
        at_(at),
        room_(request.max_bytes),
        longest_(request.max_line_bytes.value_or(request.line_numbers ? kNumberedLineBytes : SIZE_MAX)) {}

  // False when the line did not fit: the page is done.
  bool add(std::string_view line) {
    const bool has_newline = line.ends_with('\n');
    std::string_view text = has_newline ? line.substr(0, line.size() - 1) : line;
    std::string shown;
    if (request_.line_numbers) {
      shown = std::to_string(at_.line);
      shown.insert(0, shown.size() < 6 ? 6 - shown.size() : 0, ' ');
      shown += '\t';
    }
    const bool is_long = text.size() > longest_;
    if (is_long) {
      const std::string_view head = whole_characters(text.substr(0, longest_));
      shown.append(head).append("\xe2\x80\xa6[" + std::to_string(text.size() - head.size()) + " more bytes]");
    } else {
      shown += text;
    }
    if (has_newline) shown += '\n';
    const std::size_t cost = escaped_size(shown);
    if (cost > room_) {
      if (lines_ == 0) add_part(line);
      return false;
    }
    content_.append(shown);
    room_ -= cost;
    cut_lines_ += is_long ? 1 : 0;
    at_.byte += line.size();
    at_.line += has_newline ? 1 : 0;
    ++lines_;
    return true;
  }

  Bytes& content() { return content_; }
  std::uint64_t lines() const { return lines_; }
  std::uint64_t cut_lines() const { return cut_lines_; }
  const Position& position() const { return at_; }

 private:
  // A line longer than a page, in pieces: no mark, so that the pieces join to the whole.
  void add_part(std::string_view line) {
    const std::size_t count = std::max<std::size_t>(fitting_prefix(line, room_), 1);
    content_.append(line.substr(0, count));
    at_.byte += count;
  }

  const ReadRequest& request_;
  Position at_;
  std::size_t room_;
  std::size_t longest_;
  Bytes content_;
  std::uint64_t lines_ = 0;
  std::uint64_t cut_lines_ = 0;
};

void set_content(ReadAnswer& answer, Bytes bytes) {
  answer.memory = std::move(bytes);
  answer.content = as_text(answer.memory.view());
}
Bytes copy_of(std::string_view text) {
  Bytes bytes;
  bytes.append(text);
  return bytes;
}

Status fill_base64(Source& source, const ReadRequest& request, Position at, ReadAnswer& answer) {
  const std::uint64_t end =
      std::min(answer.size, at.byte + std::min(request.byte_limit.value_or(UINT64_MAX), answer.size));
  const std::uint64_t wanted = end > at.byte ? end - at.byte : 0;
  const std::uint64_t fits = std::max<std::uint64_t>(request.max_bytes / 4 * 3, 3);
  TRY(const std::string_view bytes, source.range(at.byte, std::min(wanted, fits)));
  set_content(answer, copy_of(to_base64(bytes)));
  answer.is_base64 = true;
  if (wanted > fits) answer.cursor = to_cursor({at.byte + bytes.size(), 0});
  return ok();
}

// Text between two bytes of the file, laid into a page; more is read while there is room.
Status fill_text(Source& source, const ReadRequest& request, Position at, std::uint64_t end, ReadAnswer& answer) {
  answer.first_line = at.line;
  // The usual case: all of it fits as it is.
  const bool is_plain = !request.limit && !request.line_numbers && !request.max_line_bytes;
  if (is_plain && end - at.byte <= request.max_bytes) {
    TRY(const std::string_view all, source.range(at.byte, end - at.byte));
    if (escaped_size(all) <= request.max_bytes) {
      if (source.is_whole()) {
        answer.content = all;
      } else {
        set_content(answer, copy_of(all));
      }
      return ok();
    }
  }
  Page page(request, at);
  std::uint64_t from = at.byte;
  std::string pending;
  bool is_full = false;
  const std::uint64_t most_lines = request.limit.value_or(UINT64_MAX);
  while (!is_full && page.lines() < most_lines && (from < end || !pending.empty())) {
    if (from < end) {
      TRY(const std::string_view block, source.range(from, std::min<std::uint64_t>(end - from, 256 << 10)));
      if (block.empty()) end = from;  // the file shrank
      from += block.size();
      pending += block;
    }
    std::string_view text = pending;
    while (!text.empty() && page.lines() < most_lines) {
      const std::size_t newline = text.find('\n');
      // An unfinished line waits for its end, unless it alone is more than a page holds.
      const bool is_whole = newline != std::string_view::npos || from >= end;
      if (!is_whole && text.size() <= request.max_bytes) break;
      const std::string_view line = text.substr(0, newline == std::string_view::npos ? text.size() : newline + 1);
      if (!page.add(line)) {
        is_full = true;
        break;
      }
      text.remove_prefix(line.size());
    }
    pending.erase(0, pending.size() - text.size());
  }
  set_content(answer, std::move(page.content()));
  answer.cut_lines = page.cut_lines();
  if (is_full && page.position().byte < end) answer.cursor = to_cursor(page.position());
  return ok();
}

}  // namespace

Result<ReadAnswer> read_file(const Roots& roots, const ReadRequest& request) {
  TRY(const UniqueFd file, roots.open_file(request.path, O_RDONLY));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return path_error("stat", errno);
  ReadAnswer answer;
  answer.size = static_cast<std::uint64_t>(status.st_size);
  answer.mtime_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;

  Source source(file.get());
  if (answer.size == 0) {
    // The kernel's own files (/proc, /sys) have content but no size.
    TRY(const std::string_view all, source.range(0, kMaxPageBytes));
    answer.size = all.size();
  } else {
    TRY(source.load(answer.size));
  }

  Position at{0, request.offset};
  if (!request.cursor.empty()) {
    TRY(at, parse_cursor(request.cursor));
  } else if (request.byte_offset || request.byte_limit) {
    at = {request.byte_offset.value_or(0), 0};
  }
  at.byte = std::min(at.byte, answer.size);
  const bool is_by_line = request.cursor.empty() && at.line > 0;
  // Small files are counted and hashed on the way; large ones only where the request needs it.
  const bool is_small = answer.size <= kMaxCountedBytes;
  const bool is_start = is_by_line && at.line <= 1;
  const bool is_asked = request.want_sha256.value_or(false);
  if (is_small || is_asked || (is_by_line && !is_start)) {
    const bool is_hashed = request.want_sha256.value_or(is_small && is_start && !request.limit);
    TRY(Census census, take_census(source, is_by_line ? at.line : 1, is_hashed));
    answer.lines = census.lines;
    answer.sha256 = std::move(census.sha256);
    if (is_by_line) at.byte = census.start;
  }
  std::uint64_t end = answer.size;
  if (request.byte_limit && *request.byte_limit < answer.size - at.byte && request.cursor.empty())
    end = at.byte + *request.byte_limit;

  TRY(const std::string_view head, source.range(0, kBinaryProbeBytes));
  answer.is_binary = looks_binary(head);
  if (answer.is_binary && request.encoding == ReadRequest::Encoding::utf8) {
    return Error::make(Code::invalid_params, "the file is binary; ask for base64");
  }
  if (request.encoding == ReadRequest::Encoding::base64 || answer.is_binary) {
    if (answer.is_binary) answer.lines.reset();
    TRY(fill_base64(source, request, at, answer));
  } else {
    TRY(fill_text(source, request, at, end, answer));
    if (!is_utf8(answer.content)) {
      if (request.encoding == ReadRequest::Encoding::utf8) {
        return Error::make(Code::invalid_params, "the file is not UTF-8; ask for base64");
      }
      answer.cursor.clear();
      answer.cut_lines = 0;
      answer.first_line = 0;
      TRY(fill_base64(source, request, at, answer));
    }
  }
  // A hash says "this is all of it": only given unasked when it is.
  if (!is_asked && !answer.cursor.empty()) answer.sha256.clear();
  if (answer.memory.empty()) answer.memory = source.take_whole();
  return answer;
}

}  // namespace sallyport::worker

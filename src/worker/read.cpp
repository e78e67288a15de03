#include "worker/read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/bytes.h"
#include "worker/inspect.h"
#include "worker/masks.h"
#include "worker/sha256.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

// What is to be read: from a byte, and the number of the line it belongs to (0: not known), as far as it was asked for.
struct Range {
  std::uint64_t byte = 0;
  std::uint64_t line = 1;
  std::optional<std::uint64_t> end = {};    // a byte; absent: the file's
  std::optional<std::uint64_t> lines = {};  // absent: all
};

// A cursor is a range: four numbers, with a dash for one that is absent.
std::string to_cursor(const Range& range) {
  const auto text = [](std::optional<std::uint64_t> number) { return number ? std::to_string(*number) : "-"; };
  return text(range.byte) + ":" + text(range.line) + ":" + text(range.end) + ":" + text(range.lines);
}

Result<Range> parse_cursor(std::string_view text) {
  std::array<std::optional<std::uint64_t>, 4> numbers;
  bool is_good = true;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t colon = i + 1 < numbers.size() ? text.find(':') : text.size();
    const std::string_view word = text.substr(0, colon);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const bool is_number = error == std::errc() && end == word.data() + word.size();
    if (is_number) numbers[i] = number;
    is_good = is_good && colon != std::string_view::npos && (is_number || (word == "-" && i >= 2));
    text.remove_prefix(is_good ? std::min(colon + 1, text.size()) : text.size());
  }
  if (!is_good) return Error::invalid_param("params.cursor", "is not one that fs.read gave");
  return Range{*numbers[0], *numbers[1], numbers[2], numbers[3]};
}

// A page after the first is asked for with the first one's request and a cursor. Both say where to read: a cursor that
// cannot have come from such a request is refused.
Status check_cursor(const ReadRequest& request, const Range& range) {
  const bool is_by_byte = request.byte_offset || request.byte_limit;
  const std::uint64_t first_byte = request.byte_offset.value_or(0);
  const bool is_of_bytes = range.line == 0 && range.byte >= first_byte &&
                           (!request.byte_limit || range.end == first_byte + *request.byte_limit);
  // Of what comes as base64, lines have become an end in bytes.
  const bool is_of_lines = (range.line >= request.offset || request.offset == 1) &&
                           (!request.limit || range.end || (range.lines && *range.lines <= *request.limit));
  if (is_by_byte ? is_of_bytes : is_of_lines) return ok();
  return Error::invalid_param("params.cursor", "is from a request with another offset or limit");
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

Result<Census> take_census(Source& source, std::uint64_t size, std::uint64_t wanted_line, bool want_hash,
                           const Stop& stop) {
  Census census;
  Sha256 hash;
  std::uint64_t at = 0;
  std::uint64_t newlines = 0;
  bool is_found = wanted_line <= 1;
  char last = '\n';
  while (at < size) {
    TRY(stop.check());
    TRY(const std::string_view block, source.range(at, std::min<std::uint64_t>(size - at, kScanWindowBytes)));
    if (block.empty()) break;  // the file shrank
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

// Behind the newline that ends the `count`th line from `at` on, or `end` if that comes first.
Result<std::uint64_t> end_of_lines(Source& source, std::uint64_t at, std::uint64_t count, std::uint64_t end,
                                   const Stop& stop) {
  while (at < end) {
    TRY(stop.check());
    TRY(const std::string_view block, source.range(at, std::min<std::uint64_t>(end - at, kScanWindowBytes)));
    if (block.empty()) break;
    const std::uint64_t here = count_newlines(block);
    if (here >= count) {
      std::size_t pos = 0;
      for (std::uint64_t i = 0; i < count; ++i) pos = block.find('\n', pos) + 1;
      return at + pos;
    }
    count -= here;
    at += block.size();
  }
  return end;
}

// Lays whole lines into a page until it is full.
class Page {
 public:
  // `is_inside`: the range begins inside a line, whose number is on an earlier page.
  Page(const ReadRequest& request, const Range& range, bool is_inside)
      : request_(request),
        left_(range),
        is_inside_(is_inside),
        room_(request.max_bytes),
        longest_(request.max_line_bytes.value_or(request.line_numbers ? kNumberedLineBytes : SIZE_MAX)) {}

  // A line of `size` bytes, its newline among them, which begins with `text`; all of it, unless it is cut. False when
  // it did not fit: the page is done.
  bool add(std::string_view text, std::uint64_t size, bool has_newline) {
    const std::uint64_t length = size - (has_newline ? 1 : 0);
    std::string shown = number();
    if (is_cut(length)) {
      const std::string_view head = whole_characters(text.substr(0, longest_));
      shown.append(head).append("\xe2\x80\xa6[" + std::to_string(length - head.size()) + " more bytes]");
    } else {
      shown += text.substr(0, length);
    }
    if (has_newline) shown += '\n';
    const std::size_t cost = escaped_size(shown);
    if (cost > room_) {
      if (lines_ == 0) add_part(text);
      return false;
    }
    content_.append(shown);
    room_ -= cost;
    cut_lines_ += is_cut(length) ? 1 : 0;
    left_.byte += size;
    if (left_.line > 0) left_.line += has_newline ? 1 : 0;
    if (left_.lines) --*left_.lines;
    ++lines_;
    return true;
  }

  bool is_cut(std::uint64_t length) const { return length > longest_; }
  bool is_complete() const { return left_.lines == 0; }
  Bytes& content() { return content_; }
  std::uint64_t cut_lines() const { return cut_lines_; }
  const Range& left() const { return left_; }

 private:
  std::string number() const {
    if (!request_.line_numbers || (is_inside_ && lines_ == 0)) return {};
    std::string shown = std::to_string(left_.line);
    shown.insert(0, shown.size() < 6 ? 6 - shown.size() : 0, ' ');
    return shown + '\t';
  }

  // A line longer than a page, in pieces: its number is on the first, and no mark, so that the pieces join to the
  // whole.
  void add_part(std::string_view text) {
    const std::string shown = number();
    const std::size_t count =
        std::max<std::size_t>(fitting_prefix(text, room_ - std::min(room_, escaped_size(shown))), 1);
    content_.append(shown);
    content_.append(text.substr(0, count));
    left_.byte += count;
  }

  const ReadRequest& request_;
  Range left_;
  bool is_inside_;
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

Status fill_base64(Source& source, const ReadRequest& request, Range range, std::uint64_t end, ReadAnswer& answer,
                   const Stop& stop) {
  if (range.lines) {
    TRY(end, end_of_lines(source, range.byte, *range.lines, end, stop));
    range.end = end;
    range.lines.reset();
  }
  const std::uint64_t fits = std::max<std::uint64_t>(request.max_bytes / 4 * 3, 3);
  TRY(const std::string_view bytes, source.range(range.byte, std::min(end - std::min(range.byte, end), fits)));
  set_content(answer, copy_of(to_base64(bytes)));
  answer.is_base64 = true;
  range.byte += bytes.size();
  if (range.line > 0) range.line += count_newlines(bytes);
  if (range.byte < end && !bytes.empty()) answer.cursor = to_cursor(range);
  return ok();
}

// Text between two bytes of the file, laid into a page; more is read while there is room.
Status fill_text(Source& source, const ReadRequest& request, const Range& range, std::uint64_t end, ReadAnswer& answer,
                 const Stop& stop) {
  answer.first_line = range.line;
  // The usual case: all of it fits as it is.
  const bool is_plain = !range.lines && !request.line_numbers && !request.max_line_bytes;
  if (is_plain && end - range.byte <= request.max_bytes) {
    TRY(const std::string_view all, source.range(range.byte, end - range.byte));
    if (all.size() <= request.max_bytes / kMostEscaped || escaped_size(all) <= request.max_bytes) {
      if (source.is_whole()) {
        answer.content = all;
      } else {
        set_content(answer, copy_of(all));
      }
      return ok();
    }
  }
  bool is_inside = false;
  if (range.byte > 0) {
    TRY(const std::string_view before, source.range(range.byte - 1, 1));
    is_inside = before != "\n";
  }
  Page page(request, range, is_inside);
  std::uint64_t from = range.byte;
  std::string pending;
  bool is_full = false;
  while (!is_full && !page.is_complete() && (from < end || !pending.empty())) {
    if (from < end) {
      TRY(const std::string_view block, source.range(from, std::min<std::uint64_t>(end - from, 256 << 10)));
      if (block.empty()) end = from;  // the file shrank
      from += block.size();
      pending += block;
    }
    std::string_view text = pending;
    while (!text.empty() && !page.is_complete()) {
      const std::size_t newline = text.find('\n');
      bool has_newline = newline != std::string_view::npos;
      // An unfinished line waits for its end, unless it alone is more than a page holds.
      const bool is_whole = has_newline || from >= end;
      if (!is_whole && text.size() <= request.max_bytes) break;
      const std::string_view line = text.substr(0, has_newline ? newline + 1 : text.size());
      std::uint64_t size = line.size();
      if (!is_whole && page.is_cut(size)) {
        TRY(const std::uint64_t behind, end_of_lines(source, from, 1, end, stop));
        TRY(const std::string_view last, source.range(behind - 1, 1));
        has_newline = last == "\n";
        size += behind - from;
        from = behind;
      }
      if (!page.add(line, size, has_newline)) {
        is_full = true;
        break;
      }
      text.remove_prefix(line.size());
    }
    pending.erase(0, pending.size() - text.size());
  }
  set_content(answer, std::move(page.content()));
  answer.cut_lines = page.cut_lines();
  if (is_full && page.left().byte < end) answer.cursor = to_cursor(page.left());
  return ok();
}

// Whether only its ends keep bytes from being UTF-8: a range may begin and end inside a character.
bool cuts_characters(std::string_view bytes) {
  constexpr std::size_t kMostContinued = 3;
  std::size_t begin = 0;
  while (begin < std::min(kMostContinued, bytes.size()) && (bytes[begin] & 0xc0) == 0x80) ++begin;
  return is_utf8(whole_characters(bytes.substr(begin)));
}

}  // namespace

Result<ReadAnswer> read_file(const Roots& roots, const ReadRequest& request, const Stop& stop) {
  struct stat status{};
  TRY(const UniqueFd file, roots.open_file(request.path, O_RDONLY, status));
  ReadAnswer answer;
  answer.size = static_cast<std::uint64_t>(status.st_size);
  answer.is_masked = status.st_size == 0 && Masks(roots).is_mask(file.get());
  answer.mtime_ns = mtime_ns(status);

  Source source(file.get());
  if (answer.size == 0) {
    // The kernel's own files (/proc, /sys) have content but no size, and some no end.
    while (answer.size < kMaxCountedBytes) {
      TRY(stop.check());
      TRY(const std::string_view block, source.range(answer.size, kScanWindowBytes));
      if (block.empty()) break;
      answer.size += block.size();
    }
  } else {
    TRY(source.load(answer.size));
  }

  Range range{0, request.offset, std::nullopt, request.limit};
  if (!request.cursor.empty()) {
    TRY(range, parse_cursor(request.cursor));
    TRY(check_cursor(request, range));
  } else if (request.byte_offset || request.byte_limit) {
    range = {request.byte_offset.value_or(0), 0};
    if (request.byte_limit) range.end = range.byte + *request.byte_limit;
  }
  if (request.line_numbers && range.line == 0) {
    return Error::invalid_param("params.line_numbers", "does not go together with a range of bytes");
  }
  range.byte = std::min(range.byte, answer.size);
  const bool is_by_line = request.cursor.empty() && range.line > 0;
  // Small files are counted and hashed on the way; large ones only where the request needs it.
  const bool is_small = answer.size <= kMaxCountedBytes;
  const bool is_start = is_by_line && range.line <= 1;
  const bool is_asked = request.want_sha256.value_or(false);
  if (is_small || is_asked || (is_by_line && !is_start)) {
    const bool is_hashed = request.want_sha256.value_or(is_small && is_start && !request.limit);
    TRY(Census census, take_census(source, answer.size, is_by_line ? range.line : 1, is_hashed, stop));
    answer.lines = census.lines;
    answer.sha256 = std::move(census.sha256);
    if (is_by_line) range.byte = census.start;
  }
  const std::uint64_t end = std::max(range.byte, std::min(answer.size, range.end.value_or(answer.size)));

  TRY(const std::string_view head, source.range(0, kBinaryProbeBytes));
  answer.is_binary = looks_binary(head);
  if (answer.is_binary && request.encoding == ReadRequest::Encoding::utf8) {
    return Error::make(Code::invalid_params, "the file is binary; ask for base64");
  }
  if (request.encoding == ReadRequest::Encoding::base64 || answer.is_binary) {
    if (answer.is_binary) answer.lines.reset();
    TRY(fill_base64(source, request, range, end, answer, stop));
  } else {
    TRY(fill_text(source, request, range, end, answer, stop));
    if (!is_utf8(answer.content)) {
      if (request.encoding == ReadRequest::Encoding::utf8) {
        return Error::make(Code::invalid_params, range.line == 0 && cuts_characters(answer.content)
                                                     ? "the range of bytes cuts a character; move it, or ask for base64"
                                                     : "the file is not UTF-8; ask for base64");
      }
      answer.cursor.clear();
      answer.cut_lines = 0;
      answer.first_line = 0;
      TRY(fill_base64(source, request, range, end, answer, stop));
    }
  }
  // A hash says "this is all of it": only given unasked when it is.
  if (!is_asked && !answer.cursor.empty()) answer.sha256.clear();
  if (answer.memory.empty()) answer.memory = source.take_whole();
  return answer;
}

}  // namespace sallyport::worker

#include "worker/search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "worker/text.h"

namespace sallyport::worker {
namespace {

// A multiline match can be anywhere, and a single line can be a whole file: both are held in memory.
constexpr std::size_t kMaxHeldBytes = 16 << 20;

const char* line_start(const char* least, const char* at) {
  const void* newline = ::memrchr(least, '\n', static_cast<std::size_t>(at - least));
  return newline == nullptr ? least : static_cast<const char*>(newline) + 1;
}

// Behind the line's newline, or the end.
const char* next_line(const char* at, const char* end) {
  const void* newline = std::memchr(at, '\n', static_cast<std::size_t>(end - at));
  return newline == nullptr ? end : static_cast<const char*>(newline) + 1;
}

}  // namespace

FileSearcher::FileSearcher(const Pattern& pattern, const SearchOptions& options)
    : pattern_(pattern), options_(options) {}

void FileSearcher::reserve(std::size_t capacity) {
  if (capacity <= capacity_) return;
  auto grown = std::make_unique_for_overwrite<char[]>(capacity + kScanPadding);
  std::memset(grown.get() + capacity, 0, kScanPadding);
  if (capacity_ > 0) std::memcpy(grown.get(), buffer_.get(), capacity_);
  buffer_ = std::move(grown);
  capacity_ = capacity;
}

// Reads until the buffer is full or the file ends. A short read of a regular file is its end.
ssize_t FileSearcher::fill(int fd, std::size_t at) {
  while (true) {
    const ssize_t count = ::read(fd, buffer_.get() + at, capacity_ - at);
    if (count < 0 && errno == EINTR) continue;
    return count;
  }
}

Outcome FileSearcher::search(int fd, std::uint64_t after_line, FileHits& found) {
  if (capacity_ > kScanWindowBytes) {
    buffer_.reset();
    capacity_ = 0;
  }
  reserve(kScanBufferBytes);
  const ssize_t count = fill(fd, 0);
  if (count < 0) return Outcome::unreadable;
  const auto filled = static_cast<std::size_t>(count);
  if (!options_.with_binary && looks_binary({begin(), filled})) return Outcome::binary;
  State state{&found, after_line, begin(), 1, begin(), 0};
  if (filled < capacity_) {
    // The usual case: all of it, in one read.
    if (!pattern_.is_multiline())
      scan(begin(), begin(), begin() + filled, state);
    else
      return search_whole(fd, filled, state);
    return Outcome::searched;
  }
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return Outcome::unreadable;
  if (static_cast<std::uint64_t>(status.st_size) > kMaxSearchedBytes) return Outcome::too_large;
  return pattern_.is_multiline() ? search_whole(fd, filled, state) : search_lines(fd, filled, state);
}

// A window of whole lines after the other; what context may need of the one before is kept in front.
Outcome FileSearcher::search_lines(int fd, std::size_t filled, State& state) {
  reserve(kScanWindowBytes);
  state.counted = state.emitted = begin();
  std::size_t searched = 0;  // bytes of the buffer that were searched already
  bool is_last = false;
  while (!is_done(state)) {
    while (filled < capacity_ && !is_last) {
      const ssize_t count = fill(fd, filled);
      if (count < 0) return Outcome::unreadable;
      is_last = count == 0;
      filled += static_cast<std::size_t>(count);
    }
    const char* const end = is_last ? begin() + filled : line_start(begin() + searched, begin() + filled);
    if (end == begin() + searched && !is_last) {
      if (capacity_ >= kMaxHeldBytes) return Outcome::too_large;
      const std::ptrdiff_t counted = state.counted - begin();
      const std::ptrdiff_t emitted = state.emitted - begin();
      reserve(capacity_ * 2);
      state.counted = begin() + counted;
      state.emitted = begin() + emitted;
      continue;
    }
    scan(begin(), begin() + searched, end, state);
    if (is_last) break;
    const char* keep = end;
    for (std::uint32_t i = 0; i < options_.before && keep > begin(); ++i) keep = line_start(begin(), keep - 1);
    line_of(keep, state);  // counts up to there; what is behind stays in the buffer
    const auto moved = static_cast<std::size_t>(keep - begin());
    searched = static_cast<std::size_t>(end - keep);
    filled -= moved;
    std::memmove(buffer_.get(), keep, filled);
    state.counted = begin();
    state.emitted = state.emitted > keep ? state.emitted - moved : begin();
  }
  return Outcome::searched;
}

Outcome FileSearcher::search_whole(int fd, std::size_t filled, State& state) {
  while (filled == capacity_) {
    if (capacity_ >= kMaxHeldBytes) return Outcome::too_large;
    reserve(capacity_ * 2);
    const ssize_t count = fill(fd, filled);
    if (count < 0) return Outcome::unreadable;
    filled += static_cast<std::size_t>(count);
  }
  state.counted = state.emitted = begin();
  const char* const end = begin() + filled;
  if (!pattern_.may_match(begin(), end)) return Outcome::searched;
  for (const char* from = begin(); from <= end && !is_done(state);) {
    const auto match = pattern_.find(begin(), from, end);
    if (!match || match->begin == end) break;
    const char* const line = line_start(begin(), match->begin);
    const char* const line_end =
        next_line(std::max(match->begin, match->end - (match->end > match->begin ? 1 : 0)), end);
    add_match(begin(), *match, line, line_end, state);
    from = std::max(match->end, match->begin + 1);
  }
  return Outcome::searched;
}

bool FileSearcher::is_done(const State& state) const {
  if (options_.mode == SearchOptions::Mode::files) return state.found->matches > 0;
  return state.found->matches >= options_.most_lines && state.context_left == 0;
}

void FileSearcher::scan(const char* oldest, const char* from, const char* end, State& state) {
  while (from < end) {
    if (state.found->matches >= options_.most_lines) {
      add_context(from, end, state);
      return;
    }
    const auto match = pattern_.find_line(from, end);
    if (!match) {
      add_context(from, end, state);
      return;
    }
    const char* const line = line_start(from, match->begin);
    const char* const line_end = next_line(match->begin, end);
    add_context(from, line, state);
    add_match(oldest, *match, line, line_end, state);
    if (options_.mode == SearchOptions::Mode::files) return;
    from = line_end;
  }
}

std::uint64_t FileSearcher::line_of(const char* place, State& state) {
  if (place > state.counted) {
    state.line += count_newlines({state.counted, static_cast<std::size_t>(place - state.counted)});
    state.counted = place;
  }
  return state.line;
}

void FileSearcher::add_match(const char* oldest, Span match, const char* line, const char* line_end, State& state) {
  if (options_.mode != SearchOptions::Mode::content) {
    ++state.found->matches;
    return;
  }
  const char* shown = line;
  const char* const least = std::max(oldest, state.emitted);
  for (std::uint32_t i = 0; i < options_.before && shown > least; ++i) shown = line_start(least, shown - 1);
  line_of(shown, state);
  for (const char* at = shown; at < line;) {
    const char* const next = next_line(at, line);
    add(at, next, 0, state);
    at = next;
  }
  if (line_of(line, state) > state.after_line) {
    ++state.found->matches;
    if (options_.only_matching) {
      const char* const text_end = line_end > line && line_end[-1] == '\n' ? line_end - 1 : line_end;
      for (std::optional<Span> one = match; one && one->begin < line_end;) {
        if (one->end > one->begin) add(one->begin, one->end, static_cast<std::uint32_t>(one->begin - line + 1), state);
        if (pattern_.is_multiline()) break;
        const char* const from = std::max(one->end, one->begin + 1);
        one = from < text_end ? pattern_.find(line, from, text_end) : std::nullopt;
      }
    } else {
      add(line, line_end, static_cast<std::uint32_t>(match.begin - line + 1), state);
    }
    state.context_left = options_.after;
  }
  state.emitted = std::max(state.emitted, line_end);
}

void FileSearcher::add_context(const char* from, const char* end, State& state) {
  for (; state.context_left > 0 && from < end; --state.context_left) {
    const char* const next = next_line(from, end);
    line_of(from, state);
    add(from, next, 0, state);
    state.emitted = next;
    from = next;
  }
}

// [line, end) is one line, or a match on one.
void FileSearcher::add(const char* line, const char* end, std::uint32_t column, State& state) {
  const std::uint64_t number = line_of(line, state);
  if (number <= state.after_line) return;
  std::string_view text(line, static_cast<std::size_t>(end - line));
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  const bool is_cut = text.size() > options_.line_bytes;
  if (is_cut) {
    // Around the match, so that it is seen.
    const bool is_part = options_.only_matching && column > 0;
    const std::size_t at = column > 0 && !is_part ? std::min<std::size_t>(column - 1, text.size()) : 0;
    const std::size_t lead = std::min(at, options_.line_bytes / 2);
    text = text.substr(at - lead, options_.line_bytes);
    while (!text.empty() && (static_cast<unsigned char>(text[0]) & 0xc0) == 0x80) text.remove_prefix(1);
    text = whole_characters(text);
  }
  state.found->hits.push_back({number, column, is_cut, std::string(text)});
}

}  // namespace sallyport::worker

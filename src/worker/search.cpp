#include "worker/search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "worker/text.h"

namespace sallyport::worker {
namespace {

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
  auto filled = static_cast<std::size_t>(count);
  bool is_all = filled < capacity_;  // the usual case: in one read
  const std::string_view start = std::string_view(begin(), filled).substr(0, 3);
  const bool is_utf16 = start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff");
  if (start == "\xef\xbb\xbf") {
    filled -= 3;
    std::memmove(buffer_.get(), begin() + 3, filled);
  }
  const auto is_refused = [&] { return !options_.with_binary && looks_binary({begin(), filled}); };
  if (!is_utf16 && is_refused()) return Outcome::binary;
  if (!is_all) {
    struct stat status{};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return Outcome::unreadable;
    if (static_cast<std::uint64_t>(status.st_size) > kMaxSearchedBytes) return Outcome::too_large;
    is_all = is_utf16 || pattern_.is_multiline();
    const Outcome outcome = is_all ? fill_whole(fd, filled) : Outcome::searched;
    if (outcome != Outcome::searched) return outcome;
  }
  if (is_utf16) {
    const std::string text = utf16_to_utf8({begin(), filled}, begin()[0] == '\xfe');
    reserve(text.size());
    filled = text.copy(buffer_.get(), text.size());
    if (is_refused()) return Outcome::binary;
  }
  State state{&found, after_line, begin(), 1, begin(), 0, false};
  if (!is_all) return search_lines(fd, filled, state);
  if (pattern_.is_multiline())
    search_whole(begin() + filled, state);
  else
    scan(begin(), begin(), begin() + filled, state);
  return Outcome::searched;
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

Outcome FileSearcher::fill_whole(int fd, std::size_t& filled) {
  for (ssize_t count = 1; count > 0; filled += static_cast<std::size_t>(count)) {
    if (filled == capacity_) {
      if (capacity_ >= kMaxHeldBytes) return Outcome::too_large;
      reserve(capacity_ * 2);
    }
    count = fill(fd, filled);
    if (count < 0) return Outcome::unreadable;
  }
  return Outcome::searched;
}

void FileSearcher::search_whole(const char* end, State& state) {
  if (!pattern_.may_match(begin(), end)) return;
  const bool ends_open = end > begin() && end[-1] != '\n';
  // An empty match behind the last newline is on no line.
  const auto is_on_a_line = [&](const std::optional<Span>& match) {
    return match && (match->begin < end || ends_open);
  };
  const char* shown = begin();
  for (auto match = pattern_.find(begin(), begin(), end); is_on_a_line(match);) {
    const char* const line = line_start(begin(), match->begin);
    const char* line_end = line;
    // Matches that share a line belong together.
    matches_.clear();
    do {
      if (matches_.size() < kMaxLineMatches) matches_.push_back(*match);
      line_end = std::max(line_end, next_line(match->end > match->begin ? match->end - 1 : match->begin, end));
      match = next_match(begin(), *match, end);
    } while (is_on_a_line(match) && (match->begin < line_end || line_end == end));
    add_context(shown, line, state);
    add_matches(begin(), line, line_end, state);
    shown = line_end;
    if (options_.mode == SearchOptions::Mode::files) return;
    if (is_full(state)) break;
  }
  add_context(shown, end, state);
}

// Empty ones count too. Right behind a match one is no match of its own, though it may be on a line of its own.
std::optional<Span> FileSearcher::next_match(const char* begin, Span last, const char* end) const {
  const auto behind_character = [&](const char* at) {
    const std::string_view rest(at, static_cast<std::size_t>(end - at));
    return at + (rest.empty() ? 1 : std::max<std::size_t>(utf8_sequence(rest), 1));
  };
  const char* from = last.end > last.begin ? last.end : behind_character(last.end);
  while (from <= end) {
    const auto found = pattern_.find(begin, from, end);
    const bool is_right_behind = found && found->begin == last.end && found->end == last.end;
    if (!is_right_behind || !gives_each_match()) return found;
    from = behind_character(found->end);
  }
  return std::nullopt;
}

void FileSearcher::collect_line(Span first, const char* line, const char* line_end) {
  matches_.assign(1, first);
  if (!gives_each_match()) return;
  const char* end = line_end > line && line_end[-1] == '\n' ? line_end - 1 : line_end;
  if (end > first.end && end[-1] == '\r') --end;
  while (matches_.size() < kMaxLineMatches) {
    const auto next = next_match(line, matches_.back(), end);
    if (!next) break;
    matches_.push_back(*next);
  }
}

bool FileSearcher::is_full(const State& state) const {
  return state.found->matches >= options_.most_lines || state.found->rest_behind != 0;
}

bool FileSearcher::is_done(const State& state) const {
  if (options_.mode == SearchOptions::Mode::files) return state.found->matches > 0;
  return is_full(state) && state.context_left == 0;
}

void FileSearcher::scan(const char* oldest, const char* from, const char* end, State& state) {
  while (from < end) {
    if (is_full(state)) {
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
    collect_line(*match, line, line_end);
    add_matches(oldest, line, line_end, state);
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

void FileSearcher::add_matches(const char* oldest, const char* line, const char* line_end, State& state) {
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
  const std::uint64_t matches_before = state.found->matches;
  if (options_.only_matching) {
    add_each_match(line, state);
  } else if (line_of(line, state) > state.after_line) {
    ++state.found->matches;
    add(line, line_end, static_cast<std::uint32_t>(matches_[0].begin - line + 1), state);
  }
  if (state.found->bytes >= kMaxHitBytes) state.found->rest_behind = state.found->hits.back().line;
  state.context_left = options_.after;
  state.was_shown = state.found->matches == matches_before;
  state.emitted = std::max(state.emitted, line_end);
}

void FileSearcher::add_each_match(const char* line, State& state) {
  std::uint64_t last = state.after_line;
  for (const Span& match : matches_) {
    const std::uint64_t number = line_of(match.begin, state);
    if (number > last) ++state.found->matches;
    last = std::max(last, number);
    const char* const start = line_start(line, match.begin);
    add(match.begin, match.end, static_cast<std::uint32_t>(match.begin - start + 1), state);
  }
  if (matches_.size() == kMaxLineMatches && !state.found->hits.empty()) state.found->hits.back().is_cut = true;
}

void FileSearcher::add_context(const char* from, const char* end, State& state) {
  for (; state.context_left > 0 && from < end; --state.context_left) {
    const char* const next = next_line(from, end);
    line_of(from, state);
    if (!state.was_shown) add(from, next, 0, state);
    state.emitted = next;
    from = next;
  }
}

// [line, end) is a line, the lines of a multiline match, or a match.
void FileSearcher::add(const char* line, const char* end, std::uint32_t column, State& state) {
  const std::uint64_t number = line_of(line, state);
  if (number <= state.after_line) return;
  std::string_view text(line, static_cast<std::size_t>(end - line));
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  const std::uint64_t last_line = number + (pattern_.is_multiline() ? count_newlines(text) : 0);
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
  state.found->hits.push_back({number, last_line, column, is_cut, std::string(text)});
  state.found->bytes += sizeof(Hit) + text.size();
}

}  // namespace sallyport::worker

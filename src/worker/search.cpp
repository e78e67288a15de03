#include "worker/search.h"

#include <sys/stat.h>

#include <algorithm>
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

FileSearcher::FileSearcher(const Pattern& pattern, const SearchOptions& options, const Stop& stop)
    : pattern_(pattern), options_(options), effort_{stop} {}

void FileSearcher::reserve(std::size_t capacity) {
  if (capacity <= capacity_) return;
  auto grown = std::make_unique_for_overwrite<char[]>(capacity + kScanPadding);
  std::memset(grown.get() + capacity, 0, kScanPadding);
  if (capacity_ > 0) std::memcpy(grown.get(), buffer_.get(), capacity_);
  buffer_ = std::move(grown);
  capacity_ = capacity;
}

Outcome FileSearcher::search(int fd, std::uint64_t after_line, FileHits& found) {
  if (capacity_ > kScanWindowBytes) {
    buffer_.reset();
    capacity_ = 0;
  }
  reserve(kScanBufferBytes);
  TextSource source(fd);
  const ssize_t count = source.read(buffer_.get(), capacity_);
  if (count < 0) return Outcome::unreadable;
  if (count == 0 && source.is_at_end()) return Outcome::empty;
  const auto filled = static_cast<std::size_t>(count);
  if (!options_.with_binary && looks_binary({begin(), filled})) return Outcome::binary;
  effort_.long_texts = 0;
  State state{&found, after_line, begin(), 1, begin(), 0, false};
  if (source.is_at_end()) {  // the usual case: in one read
    search_window(begin(), begin() + filled, true, state);
  } else {
    struct stat status{};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return Outcome::unreadable;
    const bool is_large = static_cast<std::uint64_t>(status.st_size) > kMaxSearchedBytes;
    if (is_large && !options_.with_large) return Outcome::too_large;
    if (!search_windows(source, filled, state)) return Outcome::unreadable;
  }
  found.long_texts = pattern_.is_multiline() ? std::min<std::uint64_t>(effort_.long_texts, 1) : effort_.long_texts;
  return effort_.is_stopped ? Outcome::stopped : Outcome::searched;
}

// Where to go on: behind what was searched.
const char* FileSearcher::search_window(const char* from, const char* end, bool is_last, State& state) {
  if (pattern_.is_multiline()) return search_whole(from, end, is_last, state);
  const char* const lines_end = is_last ? end : line_start(from, end);
  scan(begin(), from, lines_end, state);
  return lines_end;
}

// A window of whole lines after the other; what context may need of the one before is kept in front.
bool FileSearcher::search_windows(TextSource& source, std::size_t filled, State& state) {
  reserve(kScanWindowBytes);
  state.counted = state.emitted = begin();
  Held held{filled, 0};
  while (!is_done(state)) {
    effort_.is_stopped = effort_.is_stopped || effort_.stop.is_over();
    if (effort_.is_stopped) return true;
    if (!fill(source, held)) return false;
    const bool is_last = source.is_at_end();
    // A match of several lines can be anywhere: as much as may be is held at once.
    if (!is_last && pattern_.is_multiline() && grow(state)) continue;
    const char* const from = begin() + held.next;
    const char* const end = begin() + held.filled;
    const bool is_in_a_line = !is_last && !pattern_.is_multiline() && line_start(from, end) == from;
    if (is_in_a_line) {
      if (!grow(state) && !pass_long_line(source, held, state)) return false;
      continue;
    }
    const char* const next = search_window(from, end, is_last, state);
    if (is_last) break;
    slide(held, next, state);
  }
  return true;
}

// False: the file cannot be read.
bool FileSearcher::fill(TextSource& source, Held& held) {
  while (held.filled < capacity_ && !source.is_at_end()) {
    const ssize_t count = source.read(buffer_.get() + held.filled, capacity_ - held.filled);
    if (count < 0) return false;
    held.filled += static_cast<std::size_t>(count);
  }
  return true;
}

// Only up to what may be held of a file.
bool FileSearcher::grow(State& state) {
  if (capacity_ >= kMaxHeldBytes) return false;
  const std::ptrdiff_t counted = state.counted - begin();
  const std::ptrdiff_t emitted = state.emitted - begin();
  reserve(capacity_ * 2);
  state.counted = begin() + counted;
  state.emitted = begin() + emitted;
  return true;
}

void FileSearcher::slide(Held& held, const char* next, State& state) {
  const char* keep = next;
  for (std::uint32_t i = 0; i < options_.before && keep > begin(); ++i) keep = line_start(begin(), keep - 1);
  // Context never takes the place of what is to be searched.
  if (static_cast<std::size_t>(next - keep) > capacity_ / 2) keep = next;
  // A byte in front tells \A that this is not the beginning.
  if (keep == next && pattern_.is_multiline() && keep > begin()) --keep;
  line_of(keep, state);  // counts up to there; what is behind stays in the buffer
  const auto moved = static_cast<std::size_t>(keep - begin());
  held.next = static_cast<std::size_t>(next - keep);
  held.filled -= moved;
  std::memmove(buffer_.get(), keep, held.filled);
  state.counted = begin();
  state.emitted = state.emitted > keep ? state.emitted - moved : begin();
}

// A line at held.next that is longer than what may be held: part after part, each with the end of the one before it,
// up to its newline or the file's end. Its first match is given; it is no context of what follows. False: it cannot be
// read.
bool FileSearcher::pass_long_line(TextSource& source, Held& held, State& state) {
  const std::uint64_t long_texts = effort_.long_texts;
  const char* line = begin() + held.next;  // as far as it is held
  std::size_t passed = 0;                  // bytes of it that are not held any more
  const std::uint64_t number = line_of(line, state);
  bool is_searched = is_full(state);
  while (!is_done(state) && !effort_.is_stopped) {
    const char* const filled = begin() + held.filled;
    const void* const newline = std::memchr(line, '\n', static_cast<std::size_t>(filled - line));
    const char* const end = newline != nullptr ? static_cast<const char*>(newline) + 1 : filled;
    const bool is_open = newline == nullptr && !source.is_at_end();
    std::optional<Span> match;
    // Neither `^` nor `$` is where only a part begins or ends.
    if (!is_searched)
      match = pattern_.find({line, end}, passed > 0 ? line + 1 : line, is_open ? end - 1 : end, effort_);
    if (match) {
      is_searched = true;
      std::vector<Hit>& hits = state.found->hits;
      const bool was_context = !hits.empty() && hits.back().line == number;
      if (was_context) hits.pop_back();
      const std::size_t shown = hits.size();
      matches_.assign(1, *match);
      add_matches(begin(), line, end, state);
      if (hits.size() > shown) {
        hits.back().column += static_cast<std::uint32_t>(passed);
        hits.back().is_cut = true;
      }
    } else if (passed == 0) {
      add_context(line, end, state);
    }
    if (!is_open) {
      held.next = static_cast<std::size_t>(end - begin());
      state.emitted = end;
      break;
    }
    const std::size_t kept =
        std::min<std::size_t>(is_searched ? 1 : kLineOverlap, static_cast<std::size_t>(filled - line));
    passed += static_cast<std::size_t>(filled - line) - kept;
    std::memmove(buffer_.get(), filled - kept, kept);
    held = {kept, 0};
    line = state.counted = state.emitted = begin();
    if (!fill(source, held)) return false;
    effort_.is_stopped = effort_.is_stopped || effort_.stop.is_over();
  }
  effort_.long_texts = std::min(effort_.long_texts, long_texts + 1);
  return true;
}

// Matches that begin in [from, end), or, where more is to come, in the half of it that has as much behind it. Where to
// go on.
const char* FileSearcher::search_whole(const char* from, const char* end, bool is_last, State& state) {
  const Span text{begin(), end};
  // Where more is to come `$` and \z are not at the end.
  const char* const upto = is_last ? end : end - 1;
  const char* const limit = is_last ? end : from + (end - from) / 2;
  if (!is_last) effort_.long_texts = 1;
  const bool ends_open = end > begin() && end[-1] != '\n';
  // An empty match behind the last newline is on no line.
  const auto is_on_a_line = [&](const std::optional<Span>& match) {
    return match && (match->begin < end || ends_open);
  };
  const auto is_ours = [&](const std::optional<Span>& match) {
    return is_on_a_line(match) && (is_last || match->begin < limit);
  };
  const char* shown = from;
  std::optional<Span> match;
  if (!is_full(state) && pattern_.may_match(from, end)) match = pattern_.find(text, from, upto, effort_);
  while (is_ours(match)) {
    const char* const line = line_start(begin(), match->begin);
    const char* line_end = line;
    // Matches that share a line belong together.
    matches_.clear();
    do {
      if (matches_.size() < kMaxLineMatches) matches_.push_back(*match);
      const char* const last = match->end > match->begin ? match->end - 1 : match->begin;
      if (last >= line_end) line_end = next_line(last, end);  // a line may have a million of them
      match = next_match(text, *match, upto);
    } while (is_on_a_line(match) && (match->begin < line_end || line_end == end));
    add_context(shown, line, state);
    add_matches(begin(), line, line_end, state);
    shown = line_end;
    if (options_.mode == SearchOptions::Mode::files) return end;
    if (is_full(state)) break;
  }
  const char* next = is_last ? end : std::max(shown, line_start(from, limit));
  if (next == from && !is_last) next = limit;  // one line takes all of it
  add_context(shown, next, state);
  return next;
}

// Empty ones count too. Right behind a match one is no match of its own, though it may be on a line of its own.
std::optional<Span> FileSearcher::next_match(Span text, Span last, const char* upto) {
  const auto behind_character = [&](const char* at) {
    const std::string_view rest(at, static_cast<std::size_t>(text.end - at));
    return at + (rest.empty() ? 1 : std::max<std::size_t>(utf8_sequence(rest), 1));
  };
  const char* from = last.end > last.begin ? last.end : behind_character(last.end);
  while (from <= upto) {
    const auto found = pattern_.find(text, from, upto, effort_);
    const bool is_right_behind = found && found->begin == last.end && found->end == last.end;
    if (!is_right_behind || !gives_each_match()) return found;
    from = behind_character(found->end);
  }
  return std::nullopt;
}

void FileSearcher::collect_line(Span first, const char* line, const char* line_end) {
  matches_.assign(1, first);
  if (!gives_each_match()) return;
  const char* const end = line_end > line && line_end[-1] == '\n' ? line_end - 1 : line_end;
  const std::uint64_t long_texts = effort_.long_texts;
  while (matches_.size() < kMaxLineMatches) {
    const auto next = next_match({line, end}, matches_.back(), end);
    if (!next) break;
    matches_.push_back(*next);
  }
  effort_.long_texts = long_texts;  // this line was counted when the first was found
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
    const auto match = pattern_.find_line(from, end, effort_);
    if (effort_.is_stopped) return;
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
  const char* start = line;      // of the line that a match is on
  const char* looked_at = line;  // for newlines, up to here
  for (const Span& match : matches_) {
    const std::uint64_t number = line_of(match.begin, state);
    if (number > last) ++state.found->matches;
    last = std::max(last, number);
    const char* const behind_newline = line_start(looked_at, match.begin);
    if (behind_newline != looked_at) start = behind_newline;
    looked_at = match.begin;
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

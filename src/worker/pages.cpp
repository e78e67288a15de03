#include "worker/pages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "worker/cursor.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

// The matches that begin on a line, with the context that belongs to them; places in the hits of a file.
struct Group {
  std::size_t begin = 0;
  std::size_t first = 0;   // the first match
  std::size_t behind = 0;  // behind the last match
  std::size_t end = 0;     // behind its context
  std::uint64_t line = 0;
};

Group group_at(const std::vector<Hit>& hits, std::size_t begin, std::uint32_t after) {
  Group group{begin, begin, begin, begin, 0};
  while (group.first < hits.size() && hits[group.first].is_context()) ++group.first;
  group.behind = group.first;
  if (group.first < hits.size()) group.line = hits[group.first].line;
  while (group.behind < hits.size() && !hits[group.behind].is_context() && hits[group.behind].line == group.line)
    ++group.behind;
  group.end = group.behind;
  const std::uint64_t last_line = group.behind > group.first ? hits[group.behind - 1].last_line + after : UINT64_MAX;
  while (group.end < hits.size() && hits[group.end].is_context() && hits[group.end].line <= last_line) ++group.end;
  return group;
}

// Makes a group that is more than a whole page fit it: matches go before context, near lines before far ones, and one
// match always stays. The last one says that something is missing.
void trim(std::vector<Hit>& hits, Group& group, std::size_t room, std::size_t hit_cost) {
  const auto fits = [&](std::size_t place) {
    const std::size_t cost = shown_size(hits[place].text) + hit_cost;
    if (cost > room) return false;
    room -= cost;
    return true;
  };
  std::size_t behind = group.first;
  while (behind < group.behind && (fits(behind) || behind == group.first)) ++behind;
  hits[behind - 1].is_cut = true;
  std::size_t begin = group.first;
  while (begin > group.begin && fits(begin - 1)) --begin;
  std::size_t end = group.behind;
  while (end < group.end && fits(end)) ++end;
  const auto erase = [&](std::size_t from, std::size_t to) {
    hits.erase(hits.begin() + static_cast<std::ptrdiff_t>(from), hits.begin() + static_cast<std::ptrdiff_t>(to));
  };
  erase(end, group.end);
  erase(behind, group.behind);
  erase(group.begin, begin);
  group.end = group.begin + (behind - begin) + (end - group.behind);
}

// Moves as many whole lines as a page takes from `from` to `to`; the line the page ends at (0: before the first), or
// nothing if all of them fitted.
std::optional<std::uint64_t> take_lines(FileHits& from, FileHits& to, std::size_t& lines_left, std::size_t& room,
                                        bool is_first, std::uint32_t after, std::size_t hit_cost) {
  std::uint64_t last_line = 0;  // of a match that was taken
  for (std::size_t i = 0; i < from.hits.size();) {
    Group group = group_at(from.hits, i, after);
    std::size_t cost = 0;
    for (std::size_t j = i; j < group.end; ++j) cost += shown_size(from.hits[j].text) + hit_cost;
    const bool is_alone = is_first && last_line == 0;
    if (lines_left == 0 || (cost > room && !is_alone)) {
      from.hits.erase(from.hits.begin(), from.hits.begin() + static_cast<std::ptrdiff_t>(i));
      return last_line;
    }
    if (cost > room) trim(from.hits, group, room, hit_cost);
    room -= std::min(cost, room);
    --lines_left;
    ++to.matches;
    last_line = group.line;
    for (; i < group.end; ++i) to.hits.push_back(std::move(from.hits[i]));
  }
  return std::nullopt;
}

}  // namespace

Status Pages::add(FoundFiles files) {
  for (auto& [path, found] : files) {
    if (is_over()) break;
    TRY(add(prefix_ + path, found));
  }
  return ok();
}

Status Pages::send() {
  if (page_.empty() || !are_streamed()) return ok();
  ++pages_;
  room_ = request_.max_bytes;
  return on_page_(std::exchange(page_, {}));
}

Status Pages::finish(bool is_cut, GrepAnswer& answer) {
  TRY(send());
  if (is_cut && !is_over()) cursor_ = spell_cursor({last_, 0});
  answer.total = request_.limit - left_;
  answer.pages = pages_;
  answer.files = std::move(page_);
  answer.cursor = std::move(cursor_);
  return ok();
}

Status Pages::add(const std::string& path, FileHits& found) {
  std::uint64_t shown = 0;  // the last of its lines that is on a page
  while (!is_over()) {
    const std::size_t cost = shown_size(path) + kHitOverhead;
    const bool is_first = page_.empty();
    bool fits = left_ > 0 && (cost <= room_ || is_first);
    if (fits) {
      room_ -= std::min(cost, room_);
      fits = add_lines(path, found, is_first, shown);
    }
    if (fits) {
      last_ = path;
      if (found.rest_behind != 0) cursor_ = spell_cursor({path, found.rest_behind});
      return ok();
    }
    // Streamed, it goes on with another page until the limit is reached.
    if (are_streamed() && left_ > 0) {
      TRY(send());
    } else {
      cursor_ = shown != 0 ? spell_cursor({path, shown}) : spell_cursor({last_, 0});
    }
  }
  return ok();
}

// False: some of them are left.
bool Pages::add_lines(const std::string& path, FileHits& found, bool is_first, std::uint64_t& shown) {
  GrepFile file{path, {}};
  if (request_.search.mode != SearchOptions::Mode::content) {
    file.found.matches = found.matches;
    --left_;
    page_.push_back(std::move(file));
    return true;
  }
  const auto line =
      take_lines(found, file.found, left_, room_, is_first, request_.search.after, shown_size(path) + kHitOverhead);
  if (line.value_or(0) != 0) shown = *line;
  if (!line || *line != 0) page_.push_back(std::move(file));
  return !line;
}

}  // namespace sallyport::worker

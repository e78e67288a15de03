#include "worker/pages.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "worker/text.h"

namespace sallyport::worker {
namespace {

// Moves as many whole lines as a page takes from `from` to `to`; the line the page ends at (0: before the first), or
// nothing if all of them fitted.
std::optional<std::uint64_t> take_lines(FileHits& from, FileHits& to, std::size_t& lines_left, std::size_t& room,
                                        bool is_first) {
  std::uint64_t last_line = 0;  // of a match that was taken
  std::size_t i = 0;
  while (i < from.hits.size()) {
    // A match with the context before it, or with the other matches on its line.
    std::size_t end = i;
    while (end < from.hits.size() && from.hits[end].is_context()) ++end;
    const std::uint64_t line = end < from.hits.size() ? from.hits[end].line : 0;
    while (end < from.hits.size() && !from.hits[end].is_context() && from.hits[end].line == line) ++end;
    std::size_t cost = 0;
    for (std::size_t j = i; j < end; ++j) cost += escaped_size(from.hits[j].text) + kHitOverhead;
    const bool is_over = line != 0 && (lines_left == 0 || (cost > room && !(is_first && last_line == 0)));
    if (is_over) {
      // Context behind the last match stays with it.
      for (; i < end && from.hits[i].is_context() && last_line != 0 && from.hits[i].line == to.hits.back().line + 1;
           ++i) {
        to.hits.push_back(std::move(from.hits[i]));
      }
      from.hits.erase(from.hits.begin(), from.hits.begin() + static_cast<std::ptrdiff_t>(i));
      return last_line;
    }
    room -= std::min(cost, room);
    if (line != 0) {
      --lines_left;
      ++to.matches;
      last_line = line;
    }
    for (; i < end; ++i) to.hits.push_back(std::move(from.hits[i]));
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
  if (is_cut && !is_over()) cursor_ = "0:" + last_;
  answer.total = request_.limit - left_;
  answer.pages = pages_;
  answer.files = std::move(page_);
  answer.cursor = std::move(cursor_);
  return ok();
}

Status Pages::add(const std::string& path, FileHits& found) {
  std::uint64_t shown = 0;  // the last of its lines that is on a page
  while (!is_over()) {
    const std::size_t cost = escaped_size(path) + kHitOverhead;
    const bool is_first = page_.empty();
    bool fits = left_ > 0 && (cost <= room_ || is_first);
    if (fits) {
      room_ -= std::min(cost, room_);
      fits = add_lines(path, found, is_first, shown);
    }
    if (fits) {
      last_ = path;
      return ok();
    }
    // Streamed, it goes on with another page until the limit is reached.
    if (are_streamed() && left_ > 0) {
      TRY(send());
    } else {
      cursor_ = shown != 0 ? std::to_string(shown) + ":" + path : "0:" + last_;
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
  const auto line = take_lines(found, file.found, left_, room_, is_first);
  if (line.value_or(0) != 0) shown = *line;
  if (!line || *line != 0) page_.push_back(std::move(file));
  return !line;
}

}  // namespace sallyport::worker

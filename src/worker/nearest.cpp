#include "worker/nearest.h"

#include <algorithm>
#include <bitset>

#include "worker/limits.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

// Which pairs of neighbouring bytes occur, blanks left out: a cheap likeness that survives
// insertions and re-indentation. 4096 buckets keep collisions rare on a line's length.
using Pairs = std::bitset<4096>;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string without_space(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](char c) { return !is_space(c); });
  return out;
}

Pairs pairs_of(std::string_view text) {
  Pairs pairs;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    pairs.set((static_cast<unsigned char>(text[i]) * 61U + static_cast<unsigned char>(text[i + 1])) % 4096U);
  }
  return pairs;
}

template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  for (std::size_t number = 1; !text.empty() && number <= kMaxLinesCompared; ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(number, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::vector<NearLine> nearest_lines(std::string_view content, std::string_view wanted) {
  std::string anchor;
  for_each_line(wanted, [&](std::size_t, std::string_view line) {
    std::string dense = without_space(line.substr(0, kHitLineBytes));
    if (dense.size() > anchor.size()) anchor = std::move(dense);
  });
  if (anchor.size() < 2) return {};
  const Pairs anchor_pairs = pairs_of(anchor);
  struct Candidate {
    std::size_t score;  // of 1000
    std::size_t number;
    std::string_view text;
    bool same_but_space;
  };
  std::vector<Candidate> best;
  for_each_line(content, [&](std::size_t number, std::string_view line) {
    const std::string_view head = line.substr(0, kHitLineBytes);
    const std::string dense = without_space(head);
    if (dense.size() < 2) return;
    const Pairs pairs = pairs_of(dense);
    const std::size_t score = 2000 * (pairs & anchor_pairs).count() / (pairs.count() + anchor_pairs.count());
    const bool same = dense == anchor;
    if (score < 400 || (best.size() == kMaxNearest && score <= best.back().score)) return;
    best.push_back({score, number, head, same});
    std::sort(best.begin(), best.end(), [](const Candidate& a, const Candidate& b) {
      return a.score != b.score ? a.score > b.score : a.number < b.number;
    });
    if (best.size() > kMaxNearest) best.pop_back();
  });
  std::vector<NearLine> lines;
  for (const Candidate& line : best) {
    const std::string_view text = line.text.ends_with('\r') ? line.text.substr(0, line.text.size() - 1) : line.text;
    const bool is_in_wanted = wanted.find(text) != std::string_view::npos;
    lines.push_back({line.number, std::string(text), line.same_but_space && !is_in_wanted});
  }
  return lines;
}

}  // namespace sallyport::worker

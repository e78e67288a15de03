#include "worker/nearest.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <cstring>

#include "worker/limits.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

constexpr std::size_t kAlike = 400;  // of 1000: below it two lines have nothing in common

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
char fold(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

std::string without_space(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out), [](char c) { return !is_space(c); });
  return out;
}
std::string folded(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), fold);
  return text;
}
// memmem is linear in the worst case, which std::string::find is not.
bool contains(std::string_view text, std::string_view part) {
  return ::memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

// Which pairs of neighbouring bytes occur: a cheap likeness of lines of any length. 4096 buckets keep collisions rare.
using Pairs = std::bitset<4096>;

Pairs pairs_of(std::string_view text) {
  Pairs pairs;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    pairs.set((static_cast<unsigned char>(text[i]) * 61U + static_cast<unsigned char>(text[i + 1])) % 4096U);
  }
  return pairs;
}

// A line that is looked for, ready to be compared with many.
class SoughtLine {
 public:
  explicit SoughtLine(std::string_view line)
      : text_(folded(without_space(line.substr(0, kHitLineBytes)))), pairs_(pairs_of(text_)) {
    if (!is_short()) return;
    for (std::size_t i = 0; i < text_.size(); ++i) masks_[static_cast<unsigned char>(text_[i])] |= 1ULL << i;
  }

  std::size_t size() const { return text_.size(); }

  // 1000 for the same, 0 for nothing in common.
  std::size_t likeness(std::string_view line) const {
    const std::string other = folded(without_space(line.substr(0, kHitLineBytes)));
    if (text_.empty() || other.empty()) return text_.empty() && other.empty() ? 1000 : 0;
    std::size_t best = 0;
    if (text_.size() > 1 && other.size() > 1) {
      const Pairs pairs = pairs_of(other);
      best = 2000 * (pairs & pairs_).count() / (pairs.count() + pairs_.count());
    }
    if (!is_short()) return best;
    const std::size_t longer = std::max(text_.size(), other.size());
    const Distances found = distances(other);
    best = std::max(best, 1000 * (longer - found.whole) / longer);
    // It may be a part of the line; that says less, and with more than a few differences nothing.
    if (found.part * 3 <= text_.size()) best = std::max(best, 900 * (text_.size() - found.part) / text_.size());
    return best;
  }

 private:
  struct Distances {
    std::size_t whole;  // from the other line
    std::size_t part;   // from that part of it which is nearest
  };
  // One column of the matrix of distances, as the bits of machine words.
  struct Column {
    std::uint64_t up = ~0ULL, down = 0, diagonal = 0, last = 0;

    // By how much the distance of the whole pattern changes with one more byte. `is_part`: may begin anywhere.
    int step(std::uint64_t match, std::uint64_t top, bool is_part) {
      const std::uint64_t swapped = ((~diagonal & match) << 1) & last;
      diagonal = ((((match & up) + up) ^ up) | match | down) | swapped;
      std::uint64_t plus = down | ~(diagonal | up);
      std::uint64_t minus = diagonal & up;
      const int change = (plus & top) != 0 ? 1 : (minus & top) != 0 ? -1 : 0;
      plus = plus << 1 | (is_part ? 0 : 1);
      minus <<= 1;
      up = minus | ~(diagonal | plus);
      down = plus & diagonal;
      last = match;
      return change;
    }
  };

  bool is_short() const { return !text_.empty() && text_.size() <= 64; }

  // Bytes inserted, left out, changed, or swapped with the next: Hyyrö's bit-parallel form of it.
  Distances distances(std::string_view other) const {
    const std::uint64_t top = 1ULL << (text_.size() - 1);
    Column whole, part;
    auto in_whole = static_cast<std::ptrdiff_t>(text_.size());
    std::ptrdiff_t in_part = in_whole, least = in_whole;
    for (const char c : other) {
      const std::uint64_t match = masks_[static_cast<unsigned char>(c)];
      in_whole += whole.step(match, top, false);
      in_part += part.step(match, top, true);
      least = std::min(least, in_part);
    }
    return {static_cast<std::size_t>(in_whole), static_cast<std::size_t>(least)};
  }

  std::string text_;
  Pairs pairs_;
  std::array<std::uint64_t, 256> masks_{};
};

// Without their line ends. A text that ends with one has an empty last line.
std::vector<std::string_view> split(std::string_view text, std::size_t most) {
  std::vector<std::string_view> lines;
  while (lines.size() < most) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

struct Candidate {
  std::size_t score;
  std::size_t line;  // from 0

  bool operator<(const Candidate& other) const {
    return score != other.score ? score > other.score : line < other.line;
  }
};

// What is wanted begins and ends within a line.
bool fits(std::string_view line, const std::vector<std::string_view>& wanted, std::size_t index) {
  const bool is_first = index == 0, is_last = index + 1 == wanted.size();
  if (is_first && is_last) return contains(line, wanted[index]);
  if (is_first) return line.ends_with(wanted[index]);
  return is_last ? line.starts_with(wanted[index]) : line == wanted[index];
}

std::string_view difference(std::string_view line, std::string_view wanted) {
  const std::string dense = without_space(line), wanted_dense = without_space(wanted);
  if (contains(dense, wanted_dense)) return "whitespace";
  if (contains(folded(std::string(line)), folded(std::string(wanted)))) return "case";
  return contains(folded(dense), folded(wanted_dense)) ? "case and whitespace" : "";
}

NearLine describe(const std::vector<std::string_view>& lines, const std::vector<std::string_view>& wanted,
                  std::size_t first) {
  std::size_t index = 0;
  while (index < wanted.size() && first + index < lines.size() && fits(lines[first + index], wanted, index)) ++index;
  // All lines are there: only what ends them can differ.
  const bool is_all = index == wanted.size() || first + index == lines.size();
  const std::size_t at = is_all ? first : first + index;
  return {at + 1, first + 1, std::string(whole_characters(lines[at].substr(0, kHitLineBytes))),
          is_all ? "line ends" : difference(lines[at], wanted[index])};
}

}  // namespace

Nearest nearest_lines(std::string_view content, std::string_view wanted_text) {
  const std::vector<std::string_view> wanted = split(wanted_text, kMaxWantedLines);
  std::vector<SoughtLine> patterns(wanted.begin(), wanted.end());
  const auto anchor = std::max_element(patterns.begin(), patterns.end(),
                                       [](const SoughtLine& a, const SoughtLine& b) { return a.size() < b.size(); });
  if (anchor->size() == 0) return {};
  const auto anchor_index = static_cast<std::size_t>(anchor - patterns.begin());
  const std::vector<std::string_view> lines = split(content, kMaxLinesCompared + 1);
  const std::size_t count = std::min(lines.size(), kMaxLinesCompared);

  std::vector<Candidate> best;
  for (std::size_t i = anchor_index; i < count; ++i) {
    const Candidate one{anchor->likeness(lines[i]), i};
    if (one.score < kAlike || (best.size() == kMaxNearPlaces && !(one < best.back()))) continue;
    best.insert(std::upper_bound(best.begin(), best.end(), one), one);
    if (best.size() > kMaxNearPlaces) best.pop_back();
  }
  for (Candidate& one : best) {
    one.line -= anchor_index;
    std::size_t sum = 0;
    for (std::size_t i = 0; i < wanted.size() && one.line + i < count; ++i)
      sum += patterns[i].likeness(lines[one.line + i]);
    one.score = sum / wanted.size();
  }
  std::sort(best.begin(), best.end());
  Nearest nearest;
  // Behind the newline of the last line there is none.
  nearest.is_cut = lines.size() > count && lines.back().data() != content.data() + content.size();
  for (std::size_t i = 0; i < std::min(best.size(), kMaxNearest); ++i)
    nearest.lines.push_back(describe(lines, wanted, best[i].line));
  return nearest;
}

}  // namespace sallyport::worker

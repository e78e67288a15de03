#include "worker/diff.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "worker/limits.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

constexpr std::size_t kContext = 3;

using Lines = std::vector<std::string_view>;  // each with its newline, if it has one

Lines split(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

struct Middle {
  std::size_t start;  // of both texts, at the start of a line
  std::string_view before;
  std::string_view after;
};

// Where `count` more lines in front of `at` begin, or behind it end.
std::size_t lines_back(std::string_view text, std::size_t at, std::size_t count) {
  for (std::size_t i = 0; i <= count && at > 0; ++i) {
    const std::size_t newline = text.rfind('\n', at - 1);
    if (newline == std::string_view::npos) return 0;
    at = newline;
  }
  return at == 0 ? 0 : at + 1;
}
std::size_t lines_on(std::string_view text, std::size_t at, std::size_t count) {
  for (std::size_t i = 0; i <= count && at < text.size(); ++i) {
    const std::size_t newline = text.find('\n', at);
    if (newline == std::string_view::npos) return text.size();
    at = newline + 1;
  }
  return at;
}

Middle find_middle(std::string_view before, std::string_view after) {
  const std::size_t shorter = std::min(before.size(), after.size());
  const auto head = static_cast<std::size_t>(
      std::mismatch(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(shorter), after.begin()).first -
      before.begin());
  const std::size_t most = shorter - head;
  const auto tail = static_cast<std::size_t>(
      std::mismatch(before.rbegin(), before.rbegin() + static_cast<std::ptrdiff_t>(most), after.rbegin()).first -
      before.rbegin());
  const std::size_t start = lines_back(before, head, kContext);
  // The same number of bytes follows in both, so one end gives the other.
  const std::size_t end = lines_on(before, before.size() - tail, kContext);
  const std::size_t after_end = after.size() - (before.size() - end);
  return {start, before.substr(start, end - start), after.substr(start, after_end - start)};
}

// A changed stretch: lines [before, before + removed) become [after, after + added).
struct Change {
  std::size_t before, removed, after, added;
};

// Myers' greedy algorithm over line numbers that stand for equal lines. Answers the changes in
// order, or nothing if there are more than kMaxDiffEdits changed lines.
class Myers {
 public:
  Myers(const std::vector<int>& a, const std::vector<int>& b) : a_(a), b_(b) {}

  bool run(std::vector<Change>& changes) {
    const auto n = static_cast<long>(a_.size());
    const auto m = static_cast<long>(b_.size());
    const long most = std::min<long>(n + m, static_cast<long>(kMaxDiffEdits));
    std::vector<long> furthest(static_cast<std::size_t>(2 * most + 3), 0);
    const auto at = [&](std::vector<long>& v, long k) -> long& { return v[static_cast<std::size_t>(k + most + 1)]; };
    std::vector<std::vector<long>> trace;
    for (long d = 0; d <= most; ++d) {
      trace.emplace_back(furthest.begin() + (most + 1 - d - 1), furthest.begin() + (most + 1 + d + 2));
      for (long k = -d; k <= d; k += 2) {
        long x = k == -d || (k != d && at(furthest, k - 1) < at(furthest, k + 1)) ? at(furthest, k + 1)
                                                                                  : at(furthest, k - 1) + 1;
        while (x < n && x - k < m && a_[static_cast<std::size_t>(x)] == b_[static_cast<std::size_t>(x - k)]) ++x;
        at(furthest, k) = x;
        if (x >= n && x - k >= m) {
          walk_back(trace, d, n, m, changes);
          return true;
        }
      }
    }
    return false;
  }

 private:
  static void walk_back(const std::vector<std::vector<long>>& trace, long d, long x, long y,
                        std::vector<Change>& changes) {
    for (; d > 0; --d) {
      const std::vector<long>& v = trace[static_cast<std::size_t>(d)];
      const auto before = [&](long k) { return v[static_cast<std::size_t>(k + d + 1)]; };
      const long k = x - y;
      const bool is_insert = k == -d || (k != d && before(k - 1) < before(k + 1));
      const long previous_k = is_insert ? k + 1 : k - 1;
      x = before(previous_k);
      y = x - previous_k;
      const Change one{static_cast<std::size_t>(x), is_insert ? 0U : 1U, static_cast<std::size_t>(y),
                       is_insert ? 1U : 0U};
      const bool joins = !changes.empty() && changes.back().before == one.before + one.removed &&
                         changes.back().after == one.after + one.added;
      if (joins)
        changes.back() = {one.before, changes.back().removed + one.removed, one.after,
                          changes.back().added + one.added};
      else
        changes.push_back(one);
    }
    std::reverse(changes.begin(), changes.end());
  }

  const std::vector<int>& a_;
  const std::vector<int>& b_;
};

std::vector<Change> compare(const Lines& before, const Lines& after) {
  std::size_t head = 0;
  const std::size_t shorter = std::min(before.size(), after.size());
  while (head < shorter && before[head] == after[head]) ++head;
  std::size_t tail = 0;
  while (tail < shorter - head && before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) ++tail;
  std::unordered_map<std::string_view, int> numbers;
  const auto number = [&](const Lines& lines) {
    std::vector<int> out;
    for (std::size_t i = head; i < lines.size() - tail; ++i) {
      out.push_back(numbers.try_emplace(lines[i], static_cast<int>(numbers.size())).first->second);
    }
    return out;
  };
  const std::vector<int> a = number(before);
  const std::vector<int> b = number(after);
  std::vector<Change> changes;
  if (a.empty() && b.empty()) return changes;
  if (!Myers(a, b).run(changes)) changes = {{0, a.size(), 0, b.size()}};
  for (Change& change : changes) {
    change.before += head;
    change.after += head;
  }
  return changes;
}

void append_line(std::string& out, char mark, std::string_view line) {
  out += mark;
  out += line;
  if (!line.ends_with('\n')) out += "\n\\ No newline at end of file\n";
}

std::string range(std::size_t start, std::size_t count) {
  // An empty range names the line before it, as patch(1) expects.
  const std::string first = std::to_string(count == 0 ? start : start + 1);
  return count == 1 ? first : first + "," + std::to_string(count);
}

// As git writes it: a name can neither end its line nor pass for a name and a date.
std::string header(std::string_view prefix, std::string_view name) {
  const auto is_awkward = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '"' || c == '\\';
  };
  std::string text(prefix);
  if (std::none_of(name.begin(), name.end(), is_awkward)) {
    text += name;
    return text + (name.find(' ') != std::string_view::npos ? "\t\n" : "\n");
  }
  text.insert(text.size() - 2, 1, '"');
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text.append(1, '\\').append(1, c);
    } else if (is_awkward(c)) {
      text += '\\';
      for (const int shift : {6, 3, 0}) text += static_cast<char>('0' + (byte >> shift & 7));
    } else {
      text += c;
    }
  }
  return text + "\"\n";
}

}  // namespace

Diff unified_diff(std::string_view name, std::string_view before_text, std::string_view after_text) {
  // Only what lies between the first and the last change, and its context, is split into lines.
  const Middle middle = find_middle(before_text, after_text);
  if (middle.before.size() > kMaxDiffInput || middle.after.size() > kMaxDiffInput) return {{}, true, true};
  const std::size_t skipped = count_newlines(before_text.substr(0, middle.start));
  const Lines before = split(middle.before);
  const Lines after = split(middle.after);
  const std::vector<Change> changes = compare(before, after);
  if (changes.empty()) return {};
  std::string out = header("--- a/", name) + header("+++ b/", name);
  bool cut = false;
  for (std::size_t i = 0; i < changes.size() && !cut;) {
    std::size_t last = i;  // changes whose contexts touch share a hunk
    while (last + 1 < changes.size() &&
           changes[last + 1].before <= changes[last].before + changes[last].removed + 2 * kContext)
      ++last;
    const std::size_t lead = std::min(kContext, changes[i].before);
    const std::size_t end = changes[last].before + changes[last].removed;
    const std::size_t trail = std::min(kContext, before.size() - end);
    const std::size_t start = changes[i].before - lead;
    const std::size_t after_start = changes[i].after - lead;
    const std::size_t after_end = changes[last].after + changes[last].added + trail;
    out += "@@ -" + range(skipped + start, end + trail - start) + " +" +
           range(skipped + after_start, after_end - after_start) + " @@\n";
    std::size_t at = start;
    for (; i <= last; ++i) {
      for (; at < changes[i].before; ++at) append_line(out, ' ', before[at]);
      for (; at < changes[i].before + changes[i].removed; ++at) append_line(out, '-', before[at]);
      for (std::size_t j = 0; j < changes[i].added; ++j) append_line(out, '+', after[changes[i].after + j]);
      cut = out.size() > kMaxDiffBytes;
      if (cut) break;
    }
    for (; !cut && at < end + trail; ++at) append_line(out, ' ', before[at]);
  }
  if (cut) out.resize(kMaxDiffBytes);
  if (cut) out = whole_characters(out);
  const bool is_exact = is_utf8(out);
  return {is_exact ? std::move(out) : to_utf8_lossy(out), cut, is_exact};
}

}  // namespace sallyport::worker

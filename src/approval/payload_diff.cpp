#include "approval/payload_diff.h"

#include <algorithm>
#include <vector>

#include "approval/limits.h"
#include "wire/json.h"

namespace sallyport::approval {
namespace {

void indent(std::string& out, wire::Value value, std::size_t depth) {
  const std::string inner(2 * (depth + 1), ' ');
  const bool is_object = value.is_object();
  if ((!is_object && !value.is_array()) || value.size() == 0) {
    out += value.to_json();
    return;
  }
  out += is_object ? "{\n" : "[\n";
  bool is_first = true;
  const auto begin_item = [&] {
    out += is_first ? "" : ",\n";
    out += inner;
    is_first = false;
  };
  for (const auto& [key, item] : value.members()) {
    begin_item();
    out += wire::to_json([&](wire::JsonWriter& json) { json.value(key); }) + ": ";
    indent(out, item, depth + 1);
  }
  for (const wire::Value item : value.items()) {
    begin_item();
    indent(out, item, depth + 1);
  }
  out += "\n" + std::string(2 * depth, ' ') + (is_object ? "}" : "]");
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

std::string pretty(std::string_view json) {
  wire::Decoder decoder;
  const auto document = decoder.parse(json);
  if (!document) return std::string(json);
  std::string out;
  indent(out, document->root(), 0);
  return out.size() > kMaxPrettyBytes ? std::string(json) : out;
}

namespace {

std::string lines_that_differ(std::string_view before, std::string_view after) {
  const std::string old_text = pretty(before), new_text = pretty(after);
  if (old_text == new_text) return {};
  const auto a = lines_of(old_text), b = lines_of(new_text);
  std::string out = "--- as it came\n+++ as the deputy changed it\n";
  const auto line = [&](char mark, std::string_view text) { (out += mark) += std::string(text) + "\n"; };
  if (a.size() > kMaxDiffLines || b.size() > kMaxDiffLines) {
    for (const std::string_view text : a) line('-', text);
    for (const std::string_view text : b) line('+', text);
    return out;
  }
  // longest[i][j]: of the longest common subsequence of a from i and b from j.
  std::vector<std::vector<std::uint16_t>> longest(a.size() + 1, std::vector<std::uint16_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      longest[i][j] = a[i] == b[j] ? static_cast<std::uint16_t>(longest[i + 1][j + 1] + 1)
                                   : std::max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  std::size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      line(' ', a[i]);
      ++i, ++j;
    } else if (i < a.size() && (j == b.size() || longest[i + 1][j] >= longest[i][j + 1])) {
      line('-', a[i++]);
    } else {
      line('+', b[j++]);
    }
  }
  return out;
}

}  // namespace

std::string payload_diff(std::string_view before, std::string_view after) {
  std::string diff = lines_that_differ(before, after);
  if (diff.size() <= kMaxPrettyBytes) return diff;
  return "--- as it came\n+++ as the deputy changed it\ntoo much to be shown: compare `original` and `payload`\n";
}

}  // namespace sallyport::approval

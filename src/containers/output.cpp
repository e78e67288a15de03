#include "containers/output.h"

#include <optional>

#include "wire/json.h"

namespace sallyport::containers {
namespace {

std::optional<OutputLine> parse_line(wire::Decoder& decoder, std::string_view line) {
  if (line.size() > kMaxOutputLine) return std::nullopt;
  const auto document = decoder.parse(line);
  if (!document) return std::nullopt;
  const wire::Value root = document->root();
  const auto type = root.get("type").as_string(), text = root.get("text").as_string();
  if (!root.is_object() || root.size() != 2 || !type || !text) return std::nullopt;
  if (*type == "message") return OutputLine{OutputLine::Kind::message, std::string(*text)};
  if (*type == "progress") return OutputLine{OutputLine::Kind::progress, std::string(*text)};
  return std::nullopt;
}

}  // namespace

TakenOutput take_output(const LogRing& ring, std::uint64_t cursor, bool is_over) {
  TakenOutput taken;
  std::string_view left = ring.tail();
  const std::uint64_t kept_from = ring.total() - left.size();
  if (cursor >= kept_from) {
    left.remove_prefix(static_cast<std::size_t>(cursor - kept_from));
  } else {
    // What is left of a line whose beginning is gone is as good as gone.
    const std::size_t newline = left.find('\n');
    left.remove_prefix(newline == std::string_view::npos ? left.size() : newline + 1);
    taken.lost_bytes = ring.total() - left.size() - cursor;
  }
  wire::Decoder decoder;
  while (!left.empty()) {
    const std::size_t newline = left.find('\n');
    if (newline == std::string_view::npos && !is_over) break;
    const std::string_view line = left.substr(0, newline);
    left.remove_prefix(newline == std::string_view::npos ? left.size() : newline + 1);
    if (line.empty()) continue;
    if (auto parsed = parse_line(decoder, line)) {
      taken.lines.push_back(std::move(*parsed));
    } else {
      ++taken.malformed;
    }
  }
  taken.cursor = ring.total() - left.size();
  return taken;
}

}  // namespace sallyport::containers

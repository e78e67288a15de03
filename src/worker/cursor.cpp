#include "worker/cursor.h"

#include <algorithm>
#include <charconv>

#include "worker/text.h"

namespace sallyport::worker {
namespace {

constexpr std::string_view kGrep = "grep:";

std::string_view mark_of(CursorKind kind) { return kind == CursorKind::glob ? "glob:" : "list:"; }

}  // namespace

std::string spell_cursor(CursorKind kind, std::string_view name) {
  return std::string(mark_of(kind)) + spell_name(name);
}

std::optional<std::string> read_cursor(CursorKind kind, std::string_view text) {
  if (!text.starts_with(mark_of(kind))) return std::nullopt;
  return read_name(text.substr(mark_of(kind).size()));
}

std::string spell_cursor(const GrepCursor& cursor) {
  return std::string(kGrep) + std::to_string(cursor.line) + ":" + spell_name(cursor.path);
}

std::optional<GrepCursor> read_grep_cursor(std::string_view text) {
  if (!text.starts_with(kGrep)) return std::nullopt;
  const std::string_view rest = text.substr(kGrep.size());
  const std::size_t colon = std::min(rest.find(':'), rest.size());
  GrepCursor cursor;
  std::from_chars(rest.data(), rest.data() + colon, cursor.line);
  const auto path = read_name(rest.substr(std::min(colon + 1, rest.size())));
  if (!path) return std::nullopt;
  cursor.path = *path;
  if (spell_cursor(cursor) != text) return std::nullopt;
  return cursor;
}

bool is_walked_path(std::string_view path) {
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view component = path.substr(at, end - at);
    if (component.empty() || component == "." || component == "..") return false;
    at = end + 1;
  }
  return true;
}

}  // namespace sallyport::worker

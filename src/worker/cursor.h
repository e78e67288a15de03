// Cursors: where a page ended, as a text that the next request of the same kind gives back. One that is of another
// kind, or that no page can have ended with, is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sallyport::worker {

enum class CursorKind : bool { listing, glob };

std::string spell_cursor(CursorKind kind, std::string_view name);
// Nothing for what spell_cursor does not make.
std::optional<std::string> read_cursor(CursorKind kind, std::string_view text);

// Of a search: behind which line of which file the next page begins; 0 is behind all of it.
struct GrepCursor {
  std::string path;
  std::uint64_t line = 0;
};
std::string spell_cursor(const GrepCursor& cursor);
std::optional<GrepCursor> read_grep_cursor(std::string_view text);

// Whether a walk can come to it: relative, without empty components and dots.
bool is_walked_path(std::string_view path);

}  // namespace sallyport::worker

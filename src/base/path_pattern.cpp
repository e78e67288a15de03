#include "base/path_pattern.h"

#include <fnmatch.h>

#include <string>

namespace sallyport {
namespace {

// The first part is taken off.
std::string_view take_part(std::string_view& path) {
  const std::size_t end = path.find('/');
  const std::string_view part = path.substr(0, end);
  path.remove_prefix(end == std::string_view::npos ? path.size() : end + 1);
  return part;
}

}  // namespace

bool matches_path(std::string_view pattern, std::string_view path) {
  while (!pattern.empty()) {
    const std::string_view part = take_part(pattern);
    if (part == "**") {
      if (pattern.empty()) return !path.empty();
      for (; !path.empty(); take_part(path)) {
        if (matches_path(pattern, path)) return true;
      }
      return false;
    }
    if (path.empty()) return false;
    if (::fnmatch(std::string(part).c_str(), std::string(take_part(path)).c_str(), FNM_CASEFOLD) != 0) return false;
  }
  return path.empty();
}

}  // namespace sallyport

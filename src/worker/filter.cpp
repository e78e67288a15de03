#include "worker/filter.h"

#include <algorithm>

#include "worker/limits.h"
#include "worker/types.h"

namespace sallyport::worker {
namespace {

Error unknown_type(std::string_view name) {
  std::string known;
  for (const FileType& type : kFileTypes) known.append(known.empty() ? "" : ", ").append(type.name);
  const std::string shown = name.size() <= 40 ? "'" + std::string(name) + "'" : "a name";
  return Error::invalid_param("params.types", shown + " is none of " + known);
}

}  // namespace

Result<Filter> Filter::make(std::span<const std::string> include, std::span<const std::string> exclude,
                            std::span<const std::string> types, std::string_view root) {
  using Use = PathPattern::Use;
  Filter filter;
  const auto add = [&](PathPattern& to, std::string_view text, Use use, std::string_view below) -> Status {
    TRY(PathPattern pattern, PathPattern::compile(text, use, below));
    to.append(std::move(pattern));
    if (filter.include_.bytes() + filter.exclude_.bytes() <= kMaxGlobBytes) return ok();
    return Error::invalid_param("params.include", "and exclude are too many patterns, or too long ones");
  };
  for (const std::string& text : include) TRY(add(filter.include_, text, Use::include, root));
  for (const std::string& name : types) {
    const auto* type =
        std::find_if(kFileTypes.begin(), kFileTypes.end(), [&](const FileType& t) { return t.name == name; });
    if (type == kFileTypes.end()) return unknown_type(name);
    TRY(add(filter.include_, type->glob, Use::include, {}));
  }
  for (const std::string& text : exclude) TRY(add(filter.exclude_, text, Use::exclude, root));
  return filter;
}

bool Filter::accepts(std::string_view path, std::string_view name, const Stop& stop) const {
  if (!include_.is_empty() && !include_.matches(path, name, false, stop)) return false;
  return !exclude_.matches(path, name, false, stop);
}

bool Filter::excludes_directory(std::string_view path, const Stop& stop) const {
  path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return exclude_.matches(path, name, true, stop);
}

}  // namespace sallyport::worker

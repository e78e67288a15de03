#include "worker/filter.h"

#include <algorithm>

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
  for (const std::string& text : include) {
    TRY(PathPattern pattern, PathPattern::compile(text, Use::include, root));
    filter.include_.push_back(std::move(pattern));
  }
  for (const std::string& name : types) {
    const auto* type =
        std::find_if(kFileTypes.begin(), kFileTypes.end(), [&](const FileType& t) { return t.name == name; });
    if (type == kFileTypes.end()) return unknown_type(name);
    TRY(PathPattern pattern, PathPattern::compile(type->glob, Use::include));
    filter.include_.push_back(std::move(pattern));
  }
  for (const std::string& text : exclude) {
    TRY(PathPattern pattern, PathPattern::compile(text, Use::exclude, root));
    filter.exclude_.push_back(std::move(pattern));
  }
  return filter;
}

bool Filter::accepts(std::string_view path, std::string_view name) const {
  const auto matches = [&](const PathPattern& pattern) { return pattern.matches(path, name); };
  if (!include_.empty() && std::none_of(include_.begin(), include_.end(), matches)) return false;
  return std::none_of(exclude_.begin(), exclude_.end(), matches);
}

bool Filter::excludes_directory(std::string_view path) const {
  if (exclude_.empty()) return false;
  path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return std::any_of(exclude_.begin(), exclude_.end(),
                     [&](const PathPattern& pattern) { return pattern.matches(path, name, true); });
}

}  // namespace sallyport::worker

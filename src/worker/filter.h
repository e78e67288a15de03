// Which files a search looks at, by their names and paths below its root.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "worker/glob.h"

namespace sallyport::worker {

class Filter {
 public:
  // A file must match one of the includes or types (names of kFileTypes), if there are any, and no
  // exclude; nor may a directory it is in. `root` as for PathPattern::compile. INVALID_PARAMS says what is
  // wrong with a pattern, or which types there are.
  static Result<Filter> make(std::span<const std::string> include, std::span<const std::string> exclude,
                             std::span<const std::string> types, std::string_view root);

  bool is_empty() const { return include_.is_empty() && exclude_.is_empty(); }
  // What they say when it is time to stop does not count any more.
  bool accepts(std::string_view path, std::string_view name, const Stop& stop) const;
  // `path` ends with a slash.
  bool excludes_directory(std::string_view path, const Stop& stop) const;

 private:
  PathPattern include_;  // of all of them
  PathPattern exclude_;
};

}  // namespace sallyport::worker

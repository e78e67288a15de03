#include "worker/new_place.h"

#include <fcntl.h>
#include <unistd.h>

namespace sallyport::worker {
namespace {

// Empty where nothing is above but the workspace or the root directory.
std::string_view parent_of(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

}  // namespace

bool is_absent(const Error& error) { return error.details_json == R"({"errno":"ENOENT"})"; }

Error no_parent(std::string_view flag) {
  Error error = Error::make(Code::io_error, "its directory is not there: make it, or set " + std::string(flag));
  error.details_json = R"({"errno":"ENOENT","reason":"no_parent"})";
  return error;
}

Result<NewPlace> NewPlace::find(const Roots& roots, std::string_view path, Follow follow, bool create_dirs) {
  NewPlace found(roots);
  auto place = roots.place(path, follow);
  if (!place && is_absent(place.error()) && create_dirs) {
    const std::string_view parent = parent_of(path);
    for (std::string_view missing = parent; !missing.empty(); missing = parent_of(missing)) {
      const auto there = roots.open_any(missing, Follow::yes);
      if (there || !is_absent(there.error())) break;
      found.made_.emplace_back(missing);
    }
    int made = 0;
    if (!parent.empty()) TRY(roots.make_directories(parent, made));
    place = roots.place(path, follow);
  }
  if (!place) return std::move(place).error();
  found.place_ = *std::move(place);
  return found;
}

Status NewPlace::sync(const FileCalls& calls) const {
  for (const std::string& path : made_) {
    TRY(const Place made, roots_->place(path, Follow::no));
    TRY(sync_directory(made.dir.get(), calls));
  }
  return ok();
}

NewPlace::~NewPlace() {
  for (const std::string& path : made_) {
    const auto place = roots_->place(path, Follow::no);
    // One that something was put into meanwhile stays, and with it those above.
    if (place && !place->name.empty()) ::unlinkat(place->dir.get(), place->name.c_str(), AT_REMOVEDIR);
  }
}

}  // namespace sallyport::worker

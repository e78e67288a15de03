#include "worker/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "worker/about.h"
#include "worker/entries.h"
#include "worker/move.h"
#include "worker/new_place.h"

namespace sallyport::worker {
namespace {

// The parts of a path that a root is cannot be copied, moved or removed from under the worker.
Status check_not_root(const Place& place) {
  if (!place.name.empty()) return ok();
  Error error = Error::make(Code::policy_denied, "this is the directory itself, not something in it");
  error.details_json = R"({"reason":"root"})";
  return error;
}

// Nor can what lies above a root.
Status check_not_above_root(const Roots& roots, const Place& place) {
  TRY(check_not_root(place));
  struct stat status{};
  if (::fstatat(place.dir.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode) ||
      !roots.is_above_one(status)) {
    return ok();
  }
  Error error = Error::make(Code::policy_denied, "the workspace, or another directory given to this sandbox, is in it");
  error.details_json = R"({"reason":"root"})";
  return error;
}

// Before a directory is made for it.
Status check_slash(const Place& from, const TransferRequest& request) {
  struct stat status{};
  if (::fstatat(from.dir.get(), from.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return about(request.from, path_error("open", errno));
  if (request.to.ends_with('/') && !S_ISDIR(status.st_mode))
    return about(request.to, path_error("name what is no directory with a slash", ENOTDIR));
  return ok();
}

Result<NewPlace> place_for(const Roots& roots, const TransferRequest& request) {
  auto found = NewPlace::find(roots, request.to, Follow::no, request.create_dirs);
  if (!found && !request.create_dirs && is_absent(found.error()))
    return about(request.to, no_parent("create_dirs"), "to");
  if (!found) return about(request.to, std::move(found).error(), "to");
  TRY(about(request.to, check_not_root(found->place())));
  return found;
}

// That something is in the way is said of the new name, all else of the old.
Error about_either(const TransferRequest& request, Error error) {
  return about(error.code == Code::conflict ? request.to : request.from, std::move(error));
}

Error with_count(Error error, std::string_view what, std::uint64_t count) {
  const std::string member = "\"" + std::string(what) + "\":" + std::to_string(count) + "}";
  if (error.details_json.empty())
    error.details_json = "{" + member;
  else
    error.details_json.replace(error.details_json.size() - 1, 1, "," + member);
  return error;
}

}  // namespace

Result<CopyAnswer> copy_path(const Roots& roots, const TransferRequest& request, const Stop& stop) {
  TRY(const Place from, about(request.from, roots.place(request.from, Follow::yes), "from"));
  TRY(about(request.from, check_not_root(from)));
  TRY(check_slash(from, request));
  TRY(NewPlace to, place_for(roots, request));
  CopyAnswer answer;
  auto done = copy_entry(roots, from, to.place(), {request.overwrite, request.recursive}, stop, answer);
  if (!done) return about_either(request, with_count(std::move(done).error(), "copied", answer.files));
  to.keep();
  answer.is_scratch = roots.is_scratch(to.place().dir.get());
  return answer;
}

Result<MoveAnswer> move_path(const Roots& roots, const TransferRequest& request, const Stop& stop) {
  TRY(const Place from, about(request.from, roots.place(request.from, Follow::no), "from"));
  TRY(about(request.from, check_not_above_root(roots, from)));
  TRY(check_slash(from, request));
  TRY(NewPlace to, place_for(roots, request));
  auto done = move_entry(roots, from, to.place(), request.overwrite, stop);
  if (!done) return about_either(request, std::move(done).error());
  to.keep();
  return MoveAnswer{roots.is_scratch(to.place().dir.get())};
}

Result<RemoveAnswer> remove_path(const Roots& roots, std::string_view path, bool recursive, const Stop& stop) {
  TRY(const Place place, roots.place(path, Follow::no));
  TRY(check_not_above_root(roots, place));
  RemoveAnswer answer;
  if (!recursive) {
    const int error = unlink_any(place.dir.get(), place.name.c_str());
    if (error != 0) return error == EBUSY ? is_protected() : path_error("remove", error);
    answer.removed = 1;
    return answer;
  }
  auto done = remove_entry(place, stop, answer.removed);
  if (!done) return with_count(std::move(done).error(), "removed", answer.removed);
  return answer;
}

Result<MkdirAnswer> make_directory(const Roots& roots, std::string_view path, bool parents) {
  MkdirAnswer answer;
  if (parents) {
    TRY(const UniqueFd directory, roots.make_directories(path, answer.created));
    answer.is_scratch = roots.is_scratch(directory.get());
    return answer;
  }
  auto found = roots.place(path, Follow::no);
  if (!found && is_absent(found.error())) return no_parent("parents");
  TRY(const Place place, std::move(found));
  if (place.name.empty() || ::mkdirat(place.dir.get(), place.name.c_str(), 0777) != 0) {
    if (place.name.empty() || errno == EEXIST) return exists_already();
    return path_error("create directory", errno);
  }
  answer.created = 1;
  answer.is_scratch = roots.is_scratch(place.dir.get());
  return answer;
}

}  // namespace sallyport::worker

#include "worker/write.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "wire/json.h"
#include "worker/diff.h"
#include "worker/limits.h"
#include "worker/new_place.h"
#include "worker/sha256.h"

namespace sallyport::worker {
namespace {

Error stale(std::string_view wanted, std::string_view actual) {
  Error error = Error::make(Code::conflict, wanted == kAbsent   ? "there is a file, and if_match wants none"
                                            : actual == kAbsent ? "there is no file, and if_match names a version of it"
                                                                : "the file is not the version named by if_match");
  error.details_json = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("reason", "stale").member("wanted", wanted).member("sha256", actual).end_object();
  });
  return error;
}

Status check_if_match(const std::optional<std::string>& if_match) {
  if (!if_match || *if_match == kAbsent) return ok();
  const bool is_hash = if_match->size() == 64 && if_match->find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hash) return Error::invalid_param("params.if_match", "must be a sha256 in lower-case hex, or \"absent\"");
  return ok();
}

Result<std::string> hash_file(int fd, const Stop& stop) {
  Sha256 hash;
  std::string buffer(256 << 10, '\0');
  while (true) {
    TRY(stop.check());
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return path_error("read", errno);
    if (count == 0) return hash.hex();
    hash.update({buffer.data(), static_cast<std::size_t>(count)});
  }
}

Result<NewPlace> place_for_write(const Roots& roots, const WriteRequest& request) {
  const bool is_to_be_there = request.if_match && *request.if_match != kAbsent;
  auto found = NewPlace::find(roots, request.path, Follow::yes, request.create_dirs && !is_to_be_there);
  if (!found && request.create_dirs && is_to_be_there && is_absent(found.error()))
    return stale(*request.if_match, kAbsent);
  if (!found && !request.create_dirs && is_absent(found.error())) return no_parent("create_dirs");
  return found;
}

// As a patch names it.
std::string path_in_workspace(const Roots& roots, const std::string& path) {
  const std::string whole = roots.absolute(path), &workspace = roots.workspace();
  const bool is_inside =
      whole.starts_with(workspace) && whole.size() > workspace.size() && whole[workspace.size()] == '/';
  return whole.substr(is_inside ? workspace.size() + 1 : 1);
}

// The status of the file whose hash is `wanted`, or the error that there is another or none.
Result<std::optional<struct stat>> expect(const Roots& roots, const Place& place, const std::string& wanted,
                                          const Stop& stop) {
  const auto file = open_at(roots, place, O_RDONLY);
  if (!file && is_absent(file.error())) {
    if (wanted == kAbsent) return std::optional<struct stat>();
    return stale(wanted, kAbsent);
  }
  if (!file) return file.error();
  struct stat status{};
  if (::fstat(file->get(), &status) != 0) return path_error("stat", errno);
  TRY(const std::string actual, hash_file(file->get(), stop));
  if (actual != wanted) return stale(wanted, actual);
  return std::optional<struct stat>(status);
}

}  // namespace

Result<WriteAnswer> write_file(const Roots& roots, const WriteRequest& request, const Stop& stop) {
  TRY(check_if_match(request.if_match));
  if (request.path.ends_with('/')) return path_error("write", EISDIR);
  TRY(NewPlace found, place_for_write(roots, request));
  const Place& place = found.place();
  WriteOptions options = request.options;
  options.stop = &stop;
  const auto write_content = [&](int draft) { return write_all(draft, request.content, *request.options.calls); };
  const NewContent content{request.fill ? request.fill : write_content, std::nullopt, !request.fill};
  if (request.if_match) {
    TRY(const std::optional<struct stat> expected, expect(roots, place, *request.if_match, stop));
    TRY(replace_file(roots, place, content, options, &expected));
  } else {
    TRY(replace_file(roots, place, content, options, nullptr));
  }
  if (request.options.durable) TRY(found.sync(*request.options.calls));
  found.keep();
  if (request.fill) return WriteAnswer{.sha256 = {}, .is_scratch = roots.is_scratch(place.dir.get())};
  return WriteAnswer{request.content.size(), sha256_hex(request.content), roots.is_scratch(place.dir.get())};
}

Result<EditAnswer> edit_file(const Roots& roots, const EditRequest& request, const Stop& stop) {
  TRY(check_if_match(request.if_match));
  TRY(const Place place, roots.place(request.path, Follow::yes));
  TRY(const UniqueFd file, open_at(roots, place, O_RDONLY));
  TRY(const Snapshot before, read_snapshot(file.get(), kMaxEditBytes));
  if (request.if_match) {
    const std::string actual = sha256_hex(before.content);
    if (actual != *request.if_match) return stale(*request.if_match, actual);
  }
  TRY(const Edited edited, apply_edits(before.content, request.edits, stop));
  const std::optional<struct stat> expected = before.status;
  WriteOptions options = request.options;
  options.stop = &stop;
  TRY(replace_file(roots, place, edited.content, options, &expected));
  Diff diff = unified_diff(path_in_workspace(roots, request.path), before.content, edited.content);
  return EditAnswer{edited.replacements, std::move(diff.text),       diff.cut,
                    diff.is_exact,       sha256_hex(edited.content), roots.is_scratch(place.dir.get())};
}

}  // namespace sallyport::worker

#include "worker/inspect.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "worker/cursor.h"
#include "worker/listing.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

// What an entry costs in an answer besides its name and its target, at most: keys, quotes, numbers.
constexpr std::size_t kEntryOverhead = 216;

std::string_view kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "symlink";
    case S_IFIFO:
      return "fifo";
    case S_IFSOCK:
      return "socket";
    case S_IFCHR:
    case S_IFBLK:
      return "device";
    default:
      return "other";
  }
}

StatAnswer describe(const struct stat& status) {
  StatAnswer answer;
  answer.kind = kind_of(status.st_mode);
  answer.is_symlink = S_ISLNK(status.st_mode);
  answer.size = S_ISDIR(status.st_mode) ? 0 : static_cast<std::uint64_t>(status.st_size);
  answer.mode = status.st_mode & 07777;
  answer.uid = status.st_uid;
  answer.gid = status.st_gid;
  answer.links = status.st_nlink;
  answer.mtime_ns = mtime_ns(status);
  return answer;
}

std::string link_text(int dir, const char* name) {
  std::array<char, PATH_MAX> text{};
  const ssize_t length = ::readlinkat(dir, name, text.data(), text.size());
  return length < 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(length));
}

}  // namespace

std::int64_t mtime_ns(const struct stat& status) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  constexpr std::int64_t kMostSeconds = INT64_MAX / kSecond - 1;
  return std::clamp(std::int64_t{status.st_mtim.tv_sec}, -kMostSeconds, kMostSeconds) * kSecond +
         status.st_mtim.tv_nsec;
}

Result<StatAnswer> stat_path(const Roots& roots, std::string_view path) {
  TRY(const UniqueFd itself, roots.open_any(path, Follow::no));
  struct stat status{};
  if (::fstat(itself.get(), &status) != 0) return path_error("stat", errno);
  StatAnswer answer = describe(status);
  if (!answer.is_symlink) return answer;
  std::string target = link_text(itself.get(), "");
  const auto followed = roots.open_any(path, Follow::yes);
  if (followed && ::fstat(followed->get(), &status) == 0) answer = describe(status);
  answer.is_symlink = true;
  answer.target = std::move(target);
  return answer;
}

Result<ListAnswer> list_directory(const Roots& roots, const ListRequest& request) {
  std::optional<std::string> cursor = std::string();
  if (!request.cursor.empty()) cursor = read_cursor(CursorKind::listing, request.cursor);
  if (!cursor || cursor->find('/') != std::string::npos)
    return Error::invalid_param("params.cursor", "is not from a listing");
  TRY(const UniqueFd directory, roots.open_directory(request.path));
  Listing listing;
  if (!listing.read(directory.get())) return path_error("list", errno);
  std::vector<std::string_view> names;
  for (const Listing::Entry& entry : listing.entries()) {
    const std::string_view name = listing.name(entry);
    if (request.with_hidden || name[0] != '.') names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  ListAnswer answer;
  answer.total = names.size();
  std::size_t room = request.max_bytes;
  for (auto name = std::upper_bound(names.begin(), names.end(), std::string_view(*cursor)); name != names.end();
       ++name) {
    struct stat status{};
    if (::fstatat(directory.get(), name->data(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone meanwhile
    ListEntry entry{std::string(*name), describe(status)};
    if (entry.status.is_symlink) entry.status.target = link_text(directory.get(), name->data());
    const std::size_t cost = shown_size(*name) + shown_size(entry.status.target) + kEntryOverhead;
    if (answer.entries.size() == request.limit || (cost > room && !answer.entries.empty())) {
      answer.cursor = spell_cursor(CursorKind::listing, answer.entries.back().name);
      break;
    }
    room -= std::min(cost, room);
    answer.entries.push_back(std::move(entry));
  }
  return answer;
}

}  // namespace sallyport::worker

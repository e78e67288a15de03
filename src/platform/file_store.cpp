#include "platform/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>

#include "base/random.h"
#include "os/files.h"
#include "platform/limits.h"

namespace sallyport::platform {
namespace {

constexpr std::string_view kTemporary = ".tmp.";  // no key's name begins with a dot

// One name in a directory, without following any link. openat2 may ask to be tried again while names change. In a
// sandbox there is none; a single name does not lead out of its directory without it either.
UniqueFd open_in(int directory, const std::string& name, int flags, mode_t mode = 0) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = -1;
  for (int tries = 0; tries < 16; ++tries) {
    fd = ::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN) break;
  }
  if (fd < 0 && errno == ENOSYS) fd = ::openat(directory, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode);
  return UniqueFd(static_cast<int>(fd));
}

Error io_error(const char* what) { return Error::from_errno(what, errno); }

Result<UniqueFd> open_directory(int parent, const std::string& name, bool creates) {
  UniqueFd directory = open_in(parent, name, O_RDONLY | O_DIRECTORY);
  if (!directory && errno == ENOENT && creates) {
    if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) return io_error("cannot make a directory");
    if (::fsync(parent) != 0) return io_error("cannot sync a directory");
    directory = open_in(parent, name, O_RDONLY | O_DIRECTORY);
  }
  if (!directory && errno == ENOENT) return Error::make(Code::not_found, "nothing is stored there");
  if (!directory) return io_error("cannot open a directory");
  return directory;
}

Object object_of(std::string key, const struct stat& info) {
  return {std::move(key), info.st_size, info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1'000'000};
}

Status each_name(int directory, const std::function<void(const std::string&)>& visit) {
  UniqueFd own = open_in(directory, ".", O_RDONLY | O_DIRECTORY);
  DIR* const listing = own ? ::fdopendir(own.get()) : nullptr;
  if (listing == nullptr) return io_error("cannot list");
  [[maybe_unused]] const int now_owned = own.release();
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") visit(name);
  }
  ::closedir(listing);
  return ok();
}

std::int64_t weight(const std::string& name, std::int64_t size) {
  return static_cast<std::int64_t>(decode_name(name).value_or("").size()) + size + kObjectCost;
}

// A write that is under way holds its file locked: one that nobody holds was interrupted.
void remove_if_abandoned(int directory, const std::string& name) {
  const UniqueFd file = open_in(directory, name, O_RDONLY | O_NONBLOCK);
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlinkat(directory, name.c_str(), 0);
}

}  // namespace

Status FileStore::open() {
  if (root_) return ok();
  TRY(root_, os::open_private_directory(path_));
  remove_leftovers();
  return ok();
}

Result<FileStore::Bucket> FileStore::bucket(const Scope& scope, bool creates) {
  TRY(open());
  const auto tenant = encode_name(scope.tenant), name = encode_name(scope.name);
  if (!tenant || !name) return Error::invalid_param("params.bucket", "is too long");
  Bucket bucket;
  bucket.name = *name;
  TRY(bucket.tenant, open_directory(root_.get(), *tenant, creates));
  TRY(bucket.directory, open_directory(bucket.tenant.get(), *name, creates));
  return bucket;
}

Result<FileStore::Upload> FileStore::begin(const Scope& scope, const std::string& key) {
  Upload upload;
  const auto name = encode_name(key);
  if (!name) return Error::invalid_param("params.key", "is too long");
  upload.name = *name;
  struct stat info{};
  // Between being made and being locked it may be taken for one that was abandoned, and its bucket for an empty one.
  while (!upload.file || info.st_nlink == 0) {
    TRY(Bucket in, bucket(scope, true));
    upload.tenant = std::move(in.tenant);
    upload.directory = std::move(in.directory);
    upload.bucket = std::move(in.name);
    upload.temporary = std::string(kTemporary) + random_hex(8);
    upload.file = open_in(upload.directory.get(), upload.temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!upload.file && errno == ENOENT) continue;
    if (!upload.file || ::flock(upload.file.get(), LOCK_EX) != 0 || ::fstat(upload.file.get(), &info) != 0) {
      return io_error("cannot write");
    }
  }
  return upload;
}

Status FileStore::write(Upload& upload, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(upload.file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("cannot write");
    bytes.remove_prefix(static_cast<std::size_t>(count));
    upload.size += count;
  }
  return ok();
}

Result<std::int64_t> FileStore::commit(Upload& upload) {
  struct stat old{};
  const bool is_replaced = ::fstatat(upload.directory.get(), upload.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
  if (::fsync(upload.file.get()) != 0) return io_error("cannot sync");
  if (::renameat(upload.directory.get(), upload.temporary.c_str(), upload.directory.get(), upload.name.c_str()) != 0) {
    return io_error("cannot write");
  }
  if (::fsync(upload.directory.get()) != 0) return io_error("cannot sync a directory");
  return weight(upload.name, upload.size) - (is_replaced ? weight(upload.name, old.st_size) : 0);
}

// A bucket that holds nothing goes: nobody could count it.
void FileStore::abandon(const Upload& upload) {
  ::unlinkat(upload.directory.get(), upload.temporary.c_str(), 0);
  ::unlinkat(upload.tenant.get(), upload.bucket.c_str(), AT_REMOVEDIR);
}

Result<std::optional<FileStore::Opened>> FileStore::find(const Scope& scope, const std::string& key) {
  const auto name = encode_name(key);
  if (!name) return Error::invalid_param("params.key", "is too long");
  auto in = bucket(scope, false);
  if (!in && in.error().code == Code::not_found) return std::optional<Opened>();
  TRY(const Bucket found, std::move(in));
  Opened opened;
  opened.file = open_in(found.directory.get(), *name, O_RDONLY | O_NONBLOCK);
  if (!opened.file && errno == ENOENT) return std::optional<Opened>();
  struct stat info{};
  if (!opened.file || ::fstat(opened.file.get(), &info) != 0) return io_error("cannot read");
  // Somebody put something else there: it is nothing of ours.
  if (!S_ISREG(info.st_mode)) return Error::make(Code::conflict, "what is there is no object");
  opened.object = object_of(key, info);
  return std::optional<Opened>(std::move(opened));
}

Result<std::string> FileStore::read(int file, std::size_t most) {
  std::string bytes(most, '\0');
  ssize_t count = 0;
  do {
    count = ::read(file, bytes.data(), bytes.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return io_error("cannot read");
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

Result<std::optional<std::int64_t>> FileStore::remove(const Scope& scope, const std::string& key) {
  TRY(const auto opened, find(scope, key));
  if (!opened) return std::optional<std::int64_t>();
  TRY(const Bucket in, bucket(scope, false));
  const std::string name = *encode_name(key);
  if (::unlinkat(in.directory.get(), name.c_str(), 0) != 0) return io_error("cannot delete");
  if (::fsync(in.directory.get()) != 0) return io_error("cannot sync a directory");
  ::unlinkat(in.tenant.get(), in.name.c_str(), AT_REMOVEDIR);  // if that was its last
  return std::optional<std::int64_t>(-weight(name, opened->object.size));
}

Result<FileStore::Listing> FileStore::list(const Scope& scope, const std::string& prefix, const std::string& after,
                                           std::size_t limit) {
  Listing listing;
  auto in = bucket(scope, false);
  if (!in && in.error().code == Code::not_found) return listing;
  TRY(const Bucket bucket, std::move(in));
  const int found = bucket.directory.get();
  std::vector<std::string> keys;
  TRY(each_name(found, [&](const std::string& name) {
    const auto key = decode_name(name);
    if (key && key->starts_with(prefix) && *key > after) keys.push_back(*key);
  }));
  std::sort(keys.begin(), keys.end());
  listing.has_more = keys.size() > limit;
  keys.resize(std::min(keys.size(), limit));
  for (const std::string& key : keys) {
    struct stat info{};
    if (::fstatat(found, encode_name(key)->c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode)) listing.objects.push_back(object_of(key, info));
  }
  return listing;
}

Result<std::int64_t> FileStore::stored_bytes(const std::string& tenant) {
  TRY(open());
  const auto encoded = encode_name(tenant);
  if (!encoded) return Error::invalid_param("params.tenant", "is too long");
  auto directory = open_directory(root_.get(), *encoded, false);
  if (!directory && directory.error().code == Code::not_found) return std::int64_t{0};
  TRY(const UniqueFd own, std::move(directory));
  std::int64_t bytes = 0;
  Status listed = ok();
  TRY(each_name(own.get(), [&](const std::string& bucket) {
    const UniqueFd below = open_in(own.get(), bucket, O_RDONLY | O_DIRECTORY);
    if (!below || !listed) return;
    listed = each_name(below.get(), [&](const std::string& name) {
      struct stat info{};
      const bool is_ours = decode_name(name).has_value();
      if (is_ours && ::fstatat(below.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode)) {
        bytes += weight(name, info.st_size);
      }
    });
  }));
  TRY(listed);
  return bytes;
}

Status FileStore::forget(const std::string& tenant) {
  TRY(open());
  const auto encoded = encode_name(tenant);
  if (!encoded) return Error::invalid_param("params.tenant", "is too long");
  auto directory = open_directory(root_.get(), *encoded, false);
  if (!directory && directory.error().code == Code::not_found) return ok();
  TRY(const UniqueFd own, std::move(directory));
  Status listed = ok();
  TRY(each_name(own.get(), [&](const std::string& bucket) {
    const UniqueFd below = open_in(own.get(), bucket, O_RDONLY | O_DIRECTORY);
    if (!below || !listed) return;
    listed = each_name(below.get(), [&](const std::string& name) { ::unlinkat(below.get(), name.c_str(), 0); });
    ::unlinkat(own.get(), bucket.c_str(), AT_REMOVEDIR);
  }));
  TRY(listed);
  if (::unlinkat(root_.get(), encoded->c_str(), AT_REMOVEDIR) != 0) return io_error("cannot delete");
  return ::fsync(root_.get()) == 0 ? ok() : Status(io_error("cannot sync a directory"));
}

void FileStore::remove_leftovers() const {
  const auto descend = [](int parent, const auto& visit) {
    [[maybe_unused]] const Status listed = each_name(parent, [&](const std::string& name) {
      const UniqueFd below = open_in(parent, name, O_RDONLY | O_DIRECTORY);
      if (below) visit(below.get());
    });
  };
  descend(root_.get(), [&](int tenant) {
    descend(tenant, [&](int directory) {
      [[maybe_unused]] const Status listed = each_name(directory, [&](const std::string& name) {
        if (name.starts_with(kTemporary)) remove_if_abandoned(directory, name);
      });
    });
  });
}

}  // namespace sallyport::platform

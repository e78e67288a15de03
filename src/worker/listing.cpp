#include "worker/listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace sallyport::worker {
namespace {

EntryKind kind_of(int directory, const char* name, unsigned char type) {
  if (type == DT_REG) return EntryKind::file;
  if (type == DT_DIR) return EntryKind::directory;
  if (type == DT_LNK) return EntryKind::symlink;
  if (type != DT_UNKNOWN) return EntryKind::special;
  struct stat status{};  // some file systems do not tell
  if (::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return EntryKind::special;
  if (S_ISREG(status.st_mode)) return EntryKind::file;
  if (S_ISDIR(status.st_mode)) return EntryKind::directory;
  return S_ISLNK(status.st_mode) ? EntryKind::symlink : EntryKind::special;
}

}  // namespace

bool Listing::read(int directory) {
  names_.clear();
  entries_.clear();
  has_gitignore_ = false;
  has_git_ = false;
  if (buffer_.empty()) buffer_.resize(32 << 10);
  while (true) {
    const long count = ::syscall(SYS_getdents64, directory, buffer_.data(), buffer_.size());
    if (count < 0) return false;
    if (count == 0) return true;
    for (const char* at = buffer_.data(); at < buffer_.data() + count;) {
      const auto* entry = reinterpret_cast<const dirent64*>(at);
      add(directory, static_cast<const char*>(entry->d_name), entry->d_type);
      at += entry->d_reclen;
    }
  }
}

void Listing::add(int directory, const char* name, unsigned char type) {
  if (name[0] == '.') {
    const std::string_view text(name);
    if (text == "." || text == "..") return;
    has_gitignore_ |= text == ".gitignore";
    has_git_ |= text == ".git";
  }
  const std::size_t length = std::strlen(name);
  entries_.push_back(
      {static_cast<std::uint32_t>(names_.size()), static_cast<std::uint16_t>(length), kind_of(directory, name, type)});
  names_.append(name, length + 1);
}

void Listing::sort() {
  std::sort(entries_.begin(), entries_.end(), [this](const Entry& a, const Entry& b) {
    const int order = std::memcmp(c_name(a), c_name(b), std::min(a.length, b.length));
    if (order != 0) return order < 0;
    // One is a prefix of the other: what follows the shorter is its slash, or nothing.
    const auto next = [this](const Entry& entry, std::size_t at) {
      return at < entry.length                    ? static_cast<unsigned char>(c_name(entry)[at])
             : entry.kind == EntryKind::directory ? '/'
                                                  : 0U;
    };
    const std::size_t at = std::min(a.length, b.length);
    return next(a, at) < next(b, at);
  });
}

}  // namespace sallyport::worker

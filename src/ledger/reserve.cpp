#include "ledger/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "ledger/limits.h"

namespace sallyport::ledger {

Reserve::Reserve(const std::string& path)
    : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  struct stat info{};
  if (!file_ || ::fstat(file_.get(), &info) != 0) return;
  held_ = static_cast<std::uint64_t>(info.st_blocks) * 512;
  wanted_ = std::max(held_, std::min<std::uint64_t>(kReserveBytes, free_bytes() / 16));
  refill();
}

std::uint64_t Reserve::free_bytes() const {
  struct statvfs room{};
  if (::fstatvfs(file_.get(), &room) != 0) return 0;
  return static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
}

void Reserve::give_up_if_short() {
  if (!is_held() || free_bytes() >= held_) return;
  if (::ftruncate(file_.get(), 0) == 0) held_ = 0;
}

void Reserve::refill() {
  if (is_held() || wanted_ == 0 || free_bytes() / 8 < wanted_) return;
  if (::posix_fallocate(file_.get(), 0, static_cast<off_t>(wanted_)) == 0) {
    held_ = wanted_;
  } else {
    // Nothing half: what could not be had whole is not kept from others.
    [[maybe_unused]] const int undone = ::ftruncate(file_.get(), 0);
  }
}

}  // namespace sallyport::ledger

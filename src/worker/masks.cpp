#include "worker/masks.h"

#include "os/mask_names.h"

namespace sallyport::worker {

std::optional<Masks::Identity> Masks::identify(const char* path) const {
  const auto mask = roots_.open_any(path, Follow::no);
  struct stat status{};
  if (!mask || ::fstat(mask->get(), &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino};
}

bool Masks::is_mask(int fd) const {
  std::call_once(is_known_, [this] {
    file_ = identify(os::kMaskFile);
    directory_ = identify(os::kMaskDirectory);
  });
  struct stat status{};
  if (::fstat(fd, &status) != 0) return false;
  const auto& mask = S_ISDIR(status.st_mode) ? directory_ : file_;
  return mask && mask->device == status.st_dev && mask->inode == status.st_ino;
}

}  // namespace sallyport::worker

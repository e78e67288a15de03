#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "os/memory_file.h"

namespace sallyport::os {

Result<UniqueFd> sealed_file(std::string_view content) {
  UniqueFd file{::memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!file) return Error::from_errno("cannot make a file in memory", errno);
  while (!content.empty()) {
    const ssize_t count = ::write(file.get(), content.data(), content.size());
    if (count <= 0) return Error::from_errno("cannot write a file in memory", errno);
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  constexpr int kAll = F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
  if (::lseek(file.get(), 0, SEEK_SET) != 0 || ::fcntl(file.get(), F_ADD_SEALS, kAll) != 0) {
    return Error::from_errno("cannot seal a file in memory", errno);
  }
  return file;
}

}  // namespace sallyport::os

#include "policy/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

namespace sallyport::policy {

Result<std::string> read_text_file(const std::string& path, std::size_t most) {
  const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (!file) {
    const int error = errno;
    struct stat named{};
    if (error == ENOENT && ::lstat(path.c_str(), &named) == 0) {
      return Error::make(Code::io_error, path + " is a link that leads nowhere");
    }
    if (error == ENOENT) return Error::make(Code::not_found, "there is no " + path);
    return Error::make(Code::io_error, "cannot read " + path + " (" + errno_name(error) + ")");
  }
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Error::make(Code::io_error, path + " is no ordinary file");
  }
  std::string text;
  constexpr std::size_t kBlock = 16U << 10;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kBlock);
    const ssize_t count = ::read(file.get(), text.data() + before, kBlock);
    if (count < 0 && errno != EINTR) {
      return Error::make(Code::io_error, "cannot read " + path + " (" + errno_name(errno) + ")");
    }
    text.resize(before + (count > 0 ? static_cast<std::size_t>(count) : 0));
    if (text.size() > most) {
      return Error::make(Code::payload_too_large, path + " is larger than " + std::to_string(most) + " bytes");
    }
    if (count == 0) return text;
  }
}

}  // namespace sallyport::policy

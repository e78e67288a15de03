// A directory below a workspace, held open. Other sandboxes may exchange the directories above it at any moment, also
// for links to the host's: what is done to a single name in a directory that is held cannot be led elsewhere.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace sallyport::sandbox {

// Opens what lies below a directory; no component may be a link, and the whole may be longer than PATH_MAX.
UniqueFd open_below(int root, std::string_view below, int flags);

std::string link_text(int directory, const std::string& name);  // empty: no link

class HeldDirectory {
 public:
  HeldDirectory(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  // By an absolute path without links. Nothing, and errno, if it cannot be had.
  static std::optional<HeldDirectory> open(const std::string& path);
  // By the absolute path of this one or of something below it: any other cannot be had (EXDEV).
  std::optional<HeldDirectory> open_inside(const std::string& path) const;

  int fd() const { return fd_.get(); }  // O_PATH
  const std::string& path() const { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }

  std::optional<struct stat> look() const;
  std::optional<struct stat> look_at(const std::string& name) const;  // at a link itself
  std::string link_text(const std::string& name) const { return sandbox::link_text(fd(), name); }
  // At most so many names; nothing, and errno, if they cannot be listed.
  std::optional<std::vector<std::string>> list(std::size_t most) const;
  // Lets the owner list, search and write it.
  bool open_up() const;
  // Gives it another name in here, without replacing anything, and says which.
  std::optional<std::string> set_aside(const std::string& name) const;
  bool write_new(const std::string& name, const std::string& text) const;  // a file that is not there yet

 private:
  UniqueFd fd_;
  std::string path_;
};

}  // namespace sallyport::sandbox

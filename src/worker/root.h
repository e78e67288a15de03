// The directories a worker may touch, and the only way from a path to a file descriptor.
//
// A path is absolute in the container's view, or relative to the first root (the workspace). It is
// resolved by the kernel from the root's descriptor with RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS, so
// that no race with renames or symlinks leaves the root. The kernel refuses two things that are
// legitimate: absolute symlinks that point inside, and paths that lead from one root into another.
// Those are walked here by hand, one component at a time without following, which is as safe and
// slower.
//
// Not promised: names are compared as bytes (no case or Unicode folding: two spellings are two
// files, exactly as for the kernel), and a hard link to a file outside cannot be told from a file
// inside except by its link count, see Options.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::worker {

enum class Follow : bool { no, yes };  // of the last component; those before it are always followed

// A name in a directory: what create, rename and unlink work on. An empty name is the directory itself.
struct Place {
  UniqueFd dir;
  std::string name;
};

class Roots {
 public:
  struct Options {
    bool refuse_hard_links = false;  // files with more than one name are refused when opened
  };

  // Absolute directories; the first is the workspace. They are opened once and held.
  static Result<Roots> open(const std::vector<std::string>& directories, Options options);
  static Result<Roots> open(const std::vector<std::string>& directories) { return open(directories, Options()); }

  // Opens an existing regular file; everything else is refused, without waiting for a FIFO's other
  // end. `flags` is O_RDONLY or O_RDWR, perhaps with O_NOFOLLOW. What the kernel says of it is left in `status`.
  Result<UniqueFd> open_file(std::string_view path, int flags, struct stat& status) const;
  Result<UniqueFd> open_file(std::string_view path, int flags) const {
    struct stat status{};
    return open_file(path, flags, status);
  }
  Result<UniqueFd> open_directory(std::string_view path) const;
  // O_PATH: for stat. A symlink as the last component is opened itself with Follow::no.
  Result<UniqueFd> open_any(std::string_view path, Follow follow) const;
  // The parent is opened; the name need not exist. With Follow::yes the place is the one a chain of
  // symlinks ends at. What exists and has a slash behind its name must be a directory.
  Result<Place> place(std::string_view path, Follow follow) const;
  // mkdir -p; answers the directory and counts what it made.
  Result<UniqueFd> make_directories(std::string_view path, int& made) const;

  // The path in the container's view, without `.`, `..` and doubled slashes. Textual only.
  std::string absolute(std::string_view path) const;
  const std::string& workspace() const { return roots_.front().path; }

  // Whether what is put into a directory goes away with the sandbox: it is on the file system of the sandbox's own
  // root.
  bool is_scratch(int directory) const;

  // Whether a root lies somewhere below this directory.
  bool is_above_one(const struct stat& directory) const;

  bool refuses_hard_links() const { return options_.refuse_hard_links; }
  // Regular, and not a hard link where those are refused. The kind is named for the caller.
  Status check_regular(const struct stat& status) const;

 private:
  struct Root {
    std::string path;
    UniqueFd dir;
  };
  struct Start {
    const Root* root;
    std::string rest;  // relative, never empty
  };

  Result<Start> start(std::string_view path) const;
  Result<UniqueFd> open_beneath(std::string_view path, int flags) const;
  Result<Place> walk(std::string_view path, Follow follow) const;

  std::vector<Root> roots_;
  Options options_;
  std::optional<dev_t> scratch_;  // without a root of its own there is none
};

// IO_ERROR with the errno, or POLICY_DENIED where the walls themselves said no.
Error path_error(std::string_view doing, int error_number);
// A FIFO, a socket, a device: reading one could wait for ever, or do something.
Error not_regular();
bool is_on_proc(int fd);  // the kernel's own files about processes
// What the kernel shows of this process is not for those it serves: where its code lies, and under which name of the
// host's. Of the others it shows what they may see anyway, but their memory passes for a file without content.
Status check_not_process(int fd);

}  // namespace sallyport::worker

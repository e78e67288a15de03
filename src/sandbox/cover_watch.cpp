#include "sandbox/cover_watch.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>

namespace sallyport::sandbox {
namespace {

// mountinfo writes space, tab, newline and backslash as octal.
std::string unescape(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out.push_back(static_cast<char>(((text[i + 1] - '0') << 6) | ((text[i + 2] - '0') << 3) | (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::set<std::string> mount_points(int mount_info) {
  std::string text;
  char buffer[16384];
  ::lseek(mount_info, 0, SEEK_SET);
  for (ssize_t length = 0; (length = ::read(mount_info, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(length));
  }
  std::set<std::string> points;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skip, point;
    words >> skip >> skip >> skip >> skip >> point;
    // A file that was replaced shows with this suffix until its mount is gone.
    if (point.ends_with("//deleted")) continue;
    points.insert(unescape(point));
  }
  return points;
}

bool put_back(const Cover& cover) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const int place = static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, cover.target.c_str(), &how, sizeof(how)));
  if (place < 0) return false;  // not there (yet): the host may be in the middle of its rename
  const bool is_mask = cover.kind == Cover::Kind::mask_file || cover.kind == Cover::Kind::mask_directory;
  const char* source = cover.kind == Cover::Kind::mask_file ? "/run/.masked-file" : "/run/.masked-directory";
  const int tree = is_mask ? ::open_tree(AT_FDCWD, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
                           : ::open_tree(place, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
  mount_attr change{};
  change.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                    (cover.kind == Cover::Kind::pin_writable ? 0U : static_cast<unsigned>(MOUNT_ATTR_RDONLY));
  return tree >= 0 && ::mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &change, sizeof(change)) == 0 &&
         ::move_mount(tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
}

}  // namespace

std::size_t CoverWatch::check(std::vector<std::string>& lost) {
  const std::set<std::string> present = mount_points(running_.mount_info());
  std::vector<const Cover*> missing;
  for (const Cover& cover : running_.covers()) {
    if (!present.contains(cover.target)) missing.push_back(&cover);
  }
  if (missing.empty()) return 0;
  // A process of its own enters the namespaces: entering is for good.
  const pid_t helper = ::fork();
  if (helper == 0) {
    if (::setns(running_.user_namespace(), CLONE_NEWUSER) != 0 ||
        ::setns(running_.mount_namespace(), CLONE_NEWNS) != 0) {
      ::_exit(255);
    }
    int failures = 0;
    for (const Cover* cover : missing) failures += put_back(*cover) ? 0 : 1;
    ::_exit(std::min(failures, 254));
  }
  int status = 0;
  while (helper > 0 && ::waitpid(helper, &status, 0) < 0 && errno == EINTR) {
  }
  for (const Cover* cover : missing) {
    if (std::find(lost.begin(), lost.end(), cover->target) == lost.end()) lost.push_back(cover->target);
  }
  return helper > 0 && WIFEXITED(status) ? static_cast<std::size_t>(WEXITSTATUS(status)) : missing.size();
}

}  // namespace sallyport::sandbox

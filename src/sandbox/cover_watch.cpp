#include "sandbox/cover_watch.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
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

bool cover_again(const Cover& cover) {
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

std::vector<const Cover*> CoverWatch::missing() const {
  const std::set<std::string> present = mount_points(running_.mount_info());
  std::vector<const Cover*> covers;
  for (const Cover& cover : running_.covers()) {
    if (!present.contains(cover.target)) covers.push_back(&cover);
  }
  return covers;
}

// A process of its own enters the namespaces: entering is for good. It answers a byte for each cover.
bool CoverWatch::put_back(const std::vector<const Cover*>& covers, std::vector<bool>& is_back) const {
  int answers[2];
  if (::pipe2(answers, O_CLOEXEC) != 0) return false;
  const pid_t helper = ::fork();
  if (helper == 0) {
    if (::setns(running_.user_namespace(), CLONE_NEWUSER) != 0 ||
        ::setns(running_.mount_namespace(), CLONE_NEWNS) != 0) {
      ::_exit(1);
    }
    for (const Cover* cover : covers) {
      const char answer = cover_again(*cover) ? 1 : 0;
      if (::write(answers[1], &answer, 1) != 1) ::_exit(1);
    }
    ::_exit(0);
  }
  ::close(answers[1]);
  char answer = 0;
  while (is_back.size() < covers.size() && ::read(answers[0], &answer, 1) == 1) is_back.push_back(answer != 0);
  ::close(answers[0]);
  while (helper > 0 && ::waitpid(helper, nullptr, 0) < 0 && errno == EINTR) {
  }
  return is_back.size() == covers.size();
}

void CoverWatch::check(Changes& changes) {
  std::vector<const Cover*> there;
  std::size_t open_count = 0;
  for (const Cover* cover : missing()) {
    struct stat info{};
    if (::lstat(cover->target.c_str(), &info) == 0 || errno != ENOENT) {
      there.push_back(cover);
      continue;
    }
    ++open_count;
    if (told_removed_.insert(cover->target).second) changes.removed.push_back(cover->target);
  }
  std::vector<bool> is_back;
  if (!there.empty() && !put_back(there, is_back)) is_back.resize(there.size(), false);
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (!is_back[i]) {
      ++open_count;
    } else if (told_put_back_.insert(there[i]->target).second) {
      changes.put_back.push_back(there[i]->target);
    }
  }
  next_look_.reset();
  if (open_count > 0) next_look_ = Clock::now() + pause_;
  pause_ = open_count > 0 ? std::min(2 * pause_, kLongestPause) : kFirstPause;
}

}  // namespace sallyport::sandbox

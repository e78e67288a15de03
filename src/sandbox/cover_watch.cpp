#include "sandbox/cover_watch.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
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

}  // namespace

CoverWatch::CoverWatch(const Running& running) : running_(running) {
  for (const Cover& cover : running.covers()) {
    covered_names_.insert(std::string_view(cover.target).substr(cover.target.rfind('/') + 1));
  }
  if (!running.covers().empty()) next_look_ = Clock::now() + kFirstPause;
}

// The directories that hold a cover, which are all those above one too. What is watched already is not watched twice;
// what has taken a directory's place is new. Where the user's watches are used up, looking now and then must do.
void CoverWatch::watch_names() {
  if (!names_) names_ = UniqueFd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  sees_all_names_ = static_cast<bool>(names_);
  std::set<std::string> directories;
  for (const Cover& cover : running_.covers()) directories.insert(cover.target.substr(0, cover.target.rfind('/')));
  for (const std::string& directory : directories) {
    constexpr std::uint32_t kWhat = IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW;
    if (::inotify_add_watch(names_.get(), directory.c_str(), kWhat) < 0) sees_all_names_ = false;
  }
}

void CoverWatch::read_names(Changes& changes) {
  alignas(inotify_event) char buffer[16384];
  const ssize_t length = ::read(names_.get(), buffer, sizeof(buffer));
  bool concerns_us = false;
  for (ssize_t at = 0; at < length;) {
    inotify_event event{};
    std::memcpy(&event, buffer + at, sizeof(event));
    const char* name = buffer + at + sizeof(event);
    concerns_us = concerns_us || (event.mask & IN_Q_OVERFLOW) != 0 || (event.len > 0 && covered_names_.contains(name));
    at += static_cast<ssize_t>(sizeof(event) + event.len);
  }
  if (concerns_us) check(changes);
}

std::vector<const Cover*> CoverWatch::missing() const {
  const std::set<std::string> present = mount_points(running_.mount_info());
  std::vector<const Cover*> covers;
  for (const Cover& cover : running_.covers()) {
    if (!present.contains(cover.target) && !closed_.contains(cover.target)) covers.push_back(&cover);
  }
  return covers;
}

// A process of its own enters the namespaces: entering is for good. It answers a byte for each cover.
std::vector<Covered> CoverWatch::put_back(const std::vector<const Cover*>& covers) const {
  std::vector<Covered> answers;
  int pipe[2];
  if (!covers.empty() && ::pipe2(pipe, O_CLOEXEC) == 0) {
    const pid_t helper = ::fork();
    if (helper == 0) {
      if (::setns(running_.user_namespace(), CLONE_NEWUSER) != 0 ||
          ::setns(running_.mount_namespace(), CLONE_NEWNS) != 0) {
        ::_exit(1);
      }
      for (const Cover* cover : covers) {
        const Covered answer = put_cover(*cover);
        if (::write(pipe[1], &answer, 1) != 1) ::_exit(1);
      }
      ::_exit(0);
    }
    ::close(pipe[1]);
    for (Covered answer{}; answers.size() < covers.size() && ::read(pipe[0], &answer, 1) == 1;) {
      answers.push_back(answer);
    }
    ::close(pipe[0]);
    while (helper > 0 && ::waitpid(helper, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  answers.resize(covers.size(), Covered::failed);
  return answers;
}

void CoverWatch::check(Changes& changes) {
  watch_names();  // before looking, so that nothing happens in between unseen
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
  const std::vector<Covered> answers = put_back(there);
  for (std::size_t i = 0; i < there.size(); ++i) {
    const std::string& target = there[i]->target;
    if (answers[i] == Covered::failed) ++open_count;
    if (answers[i] == Covered::closed) closed_.insert(target);
    if (answers[i] == Covered::yes && told_put_back_.insert(target).second) changes.put_back.push_back(target);
  }
  const bool must_look = open_count > 0 || !sees_all_names_;
  next_look_.reset();
  if (must_look) next_look_ = Clock::now() + pause_;
  pause_ = must_look ? std::min(2 * pause_, kLongestPause) : kFirstPause;
}

}  // namespace sallyport::sandbox

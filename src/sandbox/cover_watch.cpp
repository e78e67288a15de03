#include "sandbox/cover_watch.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>
#include <utility>

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
    // The fifth word. Only blanks, tabs, line feeds and backslashes are escaped in it.
    std::size_t begin = 0;
    for (int word = 0; word < 4; ++word) begin = std::min(line.find(' ', begin), line.size() - 1) + 1;
    const std::string point = line.substr(begin, line.find(' ', begin) - begin);
    // A file that was replaced shows with this suffix until its mount is gone.
    if (point.ends_with("//deleted")) continue;
    points.insert(unescape(point));
  }
  return points;
}

}  // namespace

CoverWatch::CoverWatch(const Running& running) : running_(running) {
  if (!running.covers().empty()) next_look_ = Clock::now() + pause_;
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
    const pid_t helper = ::_Fork();  // nobody's handlers: who has a thread again cannot enter
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
  std::vector<const Cover*> there;
  std::size_t removed_count = 0;
  for (const Cover* cover : missing()) {
    struct stat info{};
    if (::lstat(cover->target.c_str(), &info) == 0 || errno != ENOENT) {
      there.push_back(cover);
      continue;
    }
    ++removed_count;
    running_.distrust(cover->target);
    if (told_removed_.insert(cover->target).second) changes.removed.push_back(cover->target);
  }
  const std::vector<Covered> answers = put_back(there);
  uncovered_.clear();
  for (std::size_t i = 0; i < there.size(); ++i) {
    const std::string& target = there[i]->target;
    running_.distrust(target);
    if (answers[i] == Covered::failed) uncovered_.push_back(target);
    if (answers[i] == Covered::closed) closed_.insert(target);
    if (answers[i] == Covered::yes && told_put_back_.insert(target).second) changes.put_back.push_back(target);
  }
  const bool was_settled = std::exchange(is_settled_, removed_count == 0 && uncovered_.empty());
  // Soon again after a change, which seldom comes alone.
  const bool has_acted = std::find(answers.begin(), answers.end(), Covered::yes) != answers.end();
  const bool is_quiet = !has_acted && was_settled == is_settled_;
  pause_ = is_quiet ? std::min(2 * pause_, kLongestPause) : kFirstPause;
  next_look_ = Clock::now() + pause_;
}

}  // namespace sallyport::sandbox

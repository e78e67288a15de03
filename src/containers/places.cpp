#include "containers/places.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "os/files.h"
#include "os/sockets.h"

namespace sallyport::containers {
namespace {

// No container's id begins with a dot.
constexpr const char* kSparePrefix = ".spare-";
// For a burst of containers; each costs a few inodes and the descriptor of a door that listens.
constexpr std::size_t kSpares = 4;
// Longer than a container takes to run, so that they are not made while it starts.
constexpr Millis kRefillAfter{10};
// Between two.
constexpr Millis kRefillPause{1};

Status make_tree(const std::string& root, std::initializer_list<const char*> below) {
  TRY(const UniqueFd directory, os::open_private_directory(root));
  for (const char* name : below) {
    if (::mkdirat(directory.get(), name, 0700) != 0 && errno != EEXIST) {
      return Error::from_errno("cannot create directory " + root + "/" + name, errno);
    }
  }
  return ok();
}

}  // namespace

void Places::open() {
  is_open_ = true;
  std::error_code ignored;
  for (const std::string& parent : {doors_, mailboxes_}) {
    std::vector<std::filesystem::path> old;
    for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
      if (entry.path().filename().string().starts_with(kSparePrefix)) old.push_back(entry.path());
    }
    for (const auto& path : old) std::filesystem::remove_all(path, ignored);
  }
  refill_later(kRefillAfter);
}

void Places::close() {
  if (!std::exchange(is_open_, false)) return;
  loop_.cancel(refill_);
  for (const Place& spare : std::exchange(spares_, {})) remove(spare.name);
}

Result<Places::Place> Places::make_one(const std::string& name) const {
  // Mount points for what is bound below the door's directory.
  const std::string door = doors_ + "/" + name;
  TRY(make_tree(door, {"mailbox", "mailbox/in", "mailbox/out", "session", "bin"}));
  const UniqueFd program{
      ::open((door + "/bin/" + kSignalProgram).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!program) return Error::from_errno("cannot create a file in " + door, errno);
  TRY(make_tree(mailboxes_ + "/" + name, {"in", "in/tmp", "in/new", "out", "session"}));
  TRY(const UniqueFd directory, os::open_private_directory(door));
  TRY(UniqueFd listening, os::listen_unix(directory.get(), kDoorName));
  return Place{name, std::move(listening)};
}

void Places::remove(const std::string& name) const {
  std::error_code ignored;
  std::filesystem::remove_all(doors_ + "/" + name, ignored);
  std::filesystem::remove_all(mailboxes_ + "/" + name, ignored);
}

Result<UniqueFd> Places::make(const std::string& id) {
  if (!spares_.empty()) {
    Place spare = std::move(spares_.back());
    spares_.pop_back();
    refill_later(kRefillAfter);
    const auto take = [&](const std::string& parent) {
      return std::rename((parent + "/" + spare.name).c_str(), (parent + "/" + id).c_str()) == 0;
    };
    if (take(doors_) && take(mailboxes_)) return std::move(spare.door);
    // Somebody tidied up: then as if there had been none.
    remove(spare.name);
  }
  TRY(Place made, make_one(id));
  return std::move(made.door);
}

void Places::refill() {
  if (!is_open_ || spares_.size() >= kSpares) return;
  // Whoever took the directories away under a warden that runs shall not find them made again.
  if (::access(doors_.c_str(), F_OK) != 0 || ::access(mailboxes_.c_str(), F_OK) != 0) return;
  const std::string name = kSparePrefix + std::to_string(++made_);
  // Whoever needs a place and cannot have one says so.
  auto made = make_one(name);
  if (!made) return remove(name);
  spares_.push_back(std::move(*made));
  refill_later(kRefillPause);
}

void Places::refill_later(Millis delay) {
  if (!is_open_ || spares_.size() >= kSpares) return;
  loop_.cancel(refill_);
  refill_ = loop_.after(delay, [this] { refill(); });
}

}  // namespace sallyport::containers

// Reading, writing, linking and renaming what is not the sandbox's.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>

#include "probe.h"

namespace probe {
namespace {

// A masked file opens and is empty: nothing was learnt, so the attack failed.
int read_file(const Arguments& args) {
  const int file = ::open(args[0].c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return judge(-1L);
  char byte = 0;
  const ssize_t length = ::read(file, &byte, 1);
  return length > 0 ? judge(0L) : (std::puts("refused: empty"), kRefused);
}

int stat_file(const Arguments& args) {
  struct stat info{};
  return judge(static_cast<long>(::lstat(args[0].c_str(), &info)));
}

int write_file(const Arguments& args) {
  const int file = ::open(args[0].c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return judge(-1L);
  return judge(static_cast<long>(::write(file, "evil\n", 5)));
}

int change_mode(const Arguments& args) {
  const auto mode = static_cast<mode_t>(std::stoul(args[1], nullptr, 8));
  return judge(static_cast<long>(::chmod(args[0].c_str(), mode)));
}

int change_mode_new_call(const Arguments& args) {
  return judge(::syscall(452, AT_FDCWD, args[0].c_str(), static_cast<mode_t>(04755), 0));  // fchmodat2
}

int create_setuid(const Arguments& args) {
  return judge(static_cast<long>(::open(args[0].c_str(), O_WRONLY | O_CREAT | O_EXCL, 04755)));
}

int create_setuid_nameless(const Arguments& args) {
  const long outcome = ::syscall(SYS_openat, AT_FDCWD, args[0].c_str(), O_TMPFILE | O_WRONLY, 04755);
#ifdef SYS_open
  if (outcome < 0) return judge(::syscall(SYS_open, args[0].c_str(), O_TMPFILE | O_WRONLY, 02755));
#endif
  return judge(outcome);
}

int create_setuid_openat2(const Arguments& args) {
  struct How {
    std::uint64_t flags, mode, resolve;
  } how = {O_WRONLY | O_CREAT | O_EXCL, 04755, 0};
  return judge(::syscall(SYS_openat2, AT_FDCWD, args[0].c_str(), &how, sizeof(how)));
}

int hard_link(const Arguments& args) { return judge(static_cast<long>(::link(args[0].c_str(), args[1].c_str()))); }

int rename_to(const Arguments& args) { return judge(static_cast<long>(::rename(args[0].c_str(), args[1].c_str()))); }

// Between two names, until a third file appears or a minute is over. Says when it has begun.
int move_forever(const Arguments& arguments) {
  const char* one = arguments[0].c_str();
  const char* two = arguments[1].c_str();
  ::close(::open((arguments[2] + ".ready").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  constexpr useconds_t kPause = 1500;
  bool has_moved = false;
  for (int i = 0; i < 20'000 && ::access(arguments[2].c_str(), F_OK) != 0; ++i) {
    has_moved |= ::rename(one, two) == 0;
    ::usleep(kPause);
    has_moved |= ::rename(two, one) == 0;
    ::usleep(kPause);
  }
  return has_moved ? kSucceeded : kRefused;
}

int exchange(const Arguments& args) {
  return judge(::syscall(SYS_renameat2, AT_FDCWD, args[0].c_str(), AT_FDCWD, args[1].c_str(), 2));  // RENAME_EXCHANGE
}

// Until a third path exists; says, by a file of its own, once the first exchange was made.
int exchange_for_long(const Arguments& args) {
  struct stat info{};
  bool has_exchanged = false;
  while (::lstat(args[2].c_str(), &info) != 0) {
    // Paused, or nobody else would ever get hold of the directory.
    for (int i = 0; i < 64; ++i) {
      has_exchanged |= ::syscall(SYS_renameat2, AT_FDCWD, args[0].c_str(), AT_FDCWD, args[1].c_str(), 2) == 0;
      ::usleep(20);
    }
    if (has_exchanged) ::close(::open((args[2] + ".ready").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  }
  return has_exchanged ? kSucceeded : kRefused;
}

int remove_path(const Arguments& args) { return judge(static_cast<long>(::unlink(args[0].c_str()))); }

int make_directory(const Arguments& args) { return judge(static_cast<long>(::mkdir(args[0].c_str(), 0755))); }

int through_symlink(const Arguments& args) {
  ::unlink("innocent");
  if (::symlink(args[0].c_str(), "innocent") != 0) return kBroken;
  const int outcome = read_file({"innocent"});
  ::unlink("innocent");
  return outcome;
}

int write_through_symlink(const Arguments& args) {
  ::unlink("innocent");
  if (::symlink(args[0].c_str(), "innocent") != 0) return kBroken;
  const int outcome = write_file({"innocent"});
  ::unlink("innocent");
  return outcome;
}

int open_by_handle(const Arguments&) {
  alignas(file_handle) char space[sizeof(file_handle) + 128] = {};
  auto* handle = reinterpret_cast<file_handle*>(space);
  handle->handle_bytes = 128;
  int mount = 0;
  if (::name_to_handle_at(AT_FDCWD, ".", handle, &mount, 0) != 0) return judge(-1L);
  const int here = ::open(".", O_RDONLY | O_DIRECTORY);
  return judge(static_cast<long>(::open_by_handle_at(here, handle, O_RDONLY)));
}

// Both need no descriptor that can be written.
int cut_input(const Arguments&) {
  const int opened = ::open("/proc/self/fd/0", O_RDONLY | O_TRUNC | O_CLOEXEC);
  return judge(opened < 0 ? static_cast<long>(::truncate("/proc/self/fd/0", 0)) : 0L);
}

int large_file(const Arguments& args) {
  ::signal(SIGXFSZ, SIG_IGN);
  const int file = ::open(args[0].c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return kBroken;
  const int outcome = judge(static_cast<long>(::ftruncate(file, static_cast<off_t>(std::stoull(args[1])))));
  ::unlink(args[0].c_str());
  return outcome;
}

// Fills until refused or until the given number of bytes is there.
int fill_disk(const Arguments& args) {
  const int file = ::open(args[0].c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return kBroken;
  static char block[1 << 20];
  for (std::uint64_t written = 0; written < std::stoull(args[1]); written += sizeof(block)) {
    const ssize_t length = ::write(file, block, sizeof(block));
    if (length < 0) return judge(-1L);
    if (length < static_cast<ssize_t>(sizeof(block))) return judge(false);
  }
  return judge(true);
}

int execute(const Arguments& args) {
  char* const argv[] = {const_cast<char*>(args[0].c_str()), nullptr};
  char* const envp[] = {nullptr};
  ::execve(args[0].c_str(), argv, envp);
  return judge(-1L);  // what is executed answers kSucceeded by itself
}

// Standard input is the host's file, on the host's mount.
int reopen_input(const Arguments&) { return judge(static_cast<long>(::open("/proc/self/fd/0", O_RDWR))); }

int succeed(const Arguments&) { return kSucceeded; }

constexpr Attack kAttacks[] = {
    {"read", 1, read_file},
    {"stat", 1, stat_file},
    {"write", 1, write_file},
    {"chmod", 2, change_mode},
    {"fchmodat2-setuid", 1, change_mode_new_call},
    {"create-setuid", 1, create_setuid},
    {"create-setuid-nameless", 1, create_setuid_nameless},
    {"create-setuid-openat2", 1, create_setuid_openat2},
    {"link", 2, hard_link},
    {"rename", 2, rename_to},
    {"exchange", 2, exchange},
    {"move-forever", 3, move_forever},
    {"exchange-for-long", 3, exchange_for_long},
    {"unlink", 1, remove_path},
    {"mkdir", 1, make_directory},
    {"read-through-symlink", 1, through_symlink},
    {"write-through-symlink", 1, write_through_symlink},
    {"open-by-handle", 0, open_by_handle},
    {"cut-input", 0, cut_input},
    {"large-file", 2, large_file},
    {"fill", 2, fill_disk},
    {"exec", 1, execute},
    {"reopen-input", 0, reopen_input},
    {"succeed", 0, succeed},
};

}  // namespace

std::span<const Attack> file_attacks() { return kAttacks; }

}  // namespace probe

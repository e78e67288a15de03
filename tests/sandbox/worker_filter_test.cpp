// What a file worker's own filter leaves of the calls that it tests the arguments of.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "os/beneath.h"
#include "sandbox/child.h"

namespace sallyport::sandbox {
namespace {

// Runs the check in a confined process, on raw calls only: true if it is true there.
bool holds_in_a_worker(const std::function<bool()>& check) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!confine_worker(0)) ::_exit(2);
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool is_denied(long result) { return result == -1 && errno == EPERM; }

TEST(WorkerFilter, AllowsOpenat2WithTheTableAlone) {
  EXPECT_TRUE(holds_in_a_worker([] { return static_cast<bool>(os::open_beneath(AT_FDCWD, ".", O_PATH)); }));
  EXPECT_TRUE(holds_in_a_worker([] {
    open_how how{};
    how.flags = O_PATH;
    return is_denied(::syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how));
  }));
}

TEST(WorkerFilter, AttackTheTableCannotBeReplaced) {
  constexpr std::size_t kPage = 4096;
  const auto at = [](std::uint64_t address) { return reinterpret_cast<void*>(address); };
  for (const std::uint64_t address : {std::uint64_t{0}, os::kOpenTable, os::kOpenTableEnd - kPage}) {
    const std::size_t size = os::kOpenTableEnd - address;
    EXPECT_TRUE(holds_in_a_worker([&] { return is_denied(::syscall(SYS_munmap, at(address), size)); }));
    EXPECT_TRUE(holds_in_a_worker([&] { return is_denied(::syscall(SYS_mprotect, at(address), size, PROT_WRITE)); }));
    EXPECT_TRUE(holds_in_a_worker([&] { return is_denied(::syscall(SYS_madvise, at(address), size, MADV_DONTNEED)); }));
    EXPECT_TRUE(holds_in_a_worker([&] {
      return is_denied(
          ::syscall(SYS_mmap, at(address), size, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    }));
    EXPECT_TRUE(holds_in_a_worker([&] {
      void* const page = ::mmap(nullptr, kPage, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      return page != MAP_FAILED &&
             is_denied(::syscall(SYS_mremap, page, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, address));
    }));
  }
  EXPECT_TRUE(holds_in_a_worker([&] {
    return is_denied(::syscall(SYS_mmap, at(os::kOpenTableEnd), kPage, PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0));
  }));
}

TEST(WorkerFilter, LeavesMemoryElsewhereToTheWorker) {
  EXPECT_TRUE(holds_in_a_worker([] {
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page = page == MAP_FAILED ? page : ::mremap(page, 4096, 1 << 20, MREMAP_MAYMOVE);
    return page != MAP_FAILED && ::mprotect(page, 4096, PROT_READ) == 0 && ::munmap(page, 1 << 20) == 0;
  }));
}

}  // namespace
}  // namespace sallyport::sandbox

#include "sandbox/processes.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sallyport::sandbox {
namespace {

// Whether what could not be opened may be there all the same.
bool may_be_there() { return errno != ENOENT && errno != ESRCH; }

bool does_thread_run(int tasks, const char* thread, DeepSleep deep) {
  char text[512];
  errno = ENOENT;
  if (read_process_file(tasks, thread, "stat", text, sizeof(text)) == 0) return may_be_there();
  const char* const name_end = std::strrchr(text, ')');
  if (name_end == nullptr || name_end[1] == '\0') return true;
  const char state = name_end[2];
  return state == 'R' || state == 'S' || (state == 'D' && deep == DeepSleep::counts);
}

}  // namespace

std::size_t read_process_file(int directory, const char* process, const char* file, char* out, std::size_t size) {
  char path[64];
  const int length_of_path = std::snprintf(path, sizeof(path), "%s/%s", process, file);
  if (length_of_path < 0 || static_cast<std::size_t>(length_of_path) >= sizeof(path)) return 0;
  const int fd = ::openat(directory, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t length = ::read(fd, out, size - 1);
  ::close(fd);
  const std::size_t used = length > 0 ? static_cast<std::size_t>(length) : 0;
  out[used] = '\0';
  return used;
}

bool does_anything_run(DeepSleep deep) {
  const int proc = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return true;
  bool runs = false;
  for_each_process(proc, [&](const char* process) {
    if (runs || std::atoi(process) == ::getpid()) return;
    char path[32];
    std::snprintf(path, sizeof(path), "%.16s/task", process);
    const int tasks = ::openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tasks < 0) {
      runs = may_be_there();
      return;
    }
    for_each_process(tasks, [&](const char* thread) { runs = runs || does_thread_run(tasks, thread, deep); });
    ::close(tasks);
  });
  ::close(proc);
  return runs;
}

}  // namespace sallyport::sandbox

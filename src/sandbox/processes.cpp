#include "sandbox/processes.h"

#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sallyport::sandbox {
namespace {

// By what its "stat" says; what cannot be read is gone.
bool does_thread_run(int tasks, const char* thread) {
  char path[32], text[512];
  std::snprintf(path, sizeof(path), "%.16s/stat", thread);
  const int fd = ::openat(tasks, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t length = ::read(fd, text, sizeof(text) - 1);
  ::close(fd);
  text[length > 0 ? length : 0] = '\0';
  const char* const name_end = std::strrchr(text, ')');
  return name_end != nullptr && (name_end[1] == ' ') && (name_end[2] == 'R' || name_end[2] == 'S');
}

}  // namespace

bool does_anything_run() {
  const int proc = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return false;
  bool runs = false;
  for_each_process(proc, [&](const char* process) {
    if (runs || std::atoi(process) == ::getpid()) return;
    char path[32];
    std::snprintf(path, sizeof(path), "%.16s/task", process);
    const int tasks = ::openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tasks < 0) return;
    for_each_process(tasks, [&](const char* thread) { runs = runs || does_thread_run(tasks, thread); });
    ::close(tasks);
  });
  ::close(proc);
  return runs;
}

}  // namespace sallyport::sandbox

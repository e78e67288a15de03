// The processes that /proc shows. Nothing allocates.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace sallyport::sandbox {

// Calls `visit` with the name of each process's directory, which is its number, lowest first. One that is started
// meanwhile by one that is still to come comes after it, unless numbers begin anew.
template <typename Visit>
void for_each_process(int proc, Visit visit) {
  struct Entry {  // what getdents64 writes
    std::uint64_t inode;
    std::int64_t offset;
    std::uint16_t length;
    std::uint8_t type;
    char name[1];  // longer than that
  };
  alignas(Entry) char buffer[8192];
  if (::lseek(proc, 0, SEEK_SET) < 0) return;
  long length = 0;
  while ((length = ::syscall(SYS_getdents64, proc, buffer, sizeof(buffer))) > 0) {
    for (long at = 0; at < length;) {
      const auto* entry = reinterpret_cast<const Entry*>(buffer + at);
      if (entry->name[0] >= '1' && entry->name[0] <= '9') visit(entry->name);
      at += entry->length;
    }
  }
}

// Reads a file of a process's directory, with a NUL behind it; how much there was, 0 if it cannot be read.
std::size_t read_process_file(int proc, const char* process, const char* file, char* out, std::size_t size);

// Whether a thread of another process than this one runs, or waits for something that can wake it: nobody's does that
// is stopped. One that no signal wakes before what it waits for has come may be counted too. True also where that
// cannot be seen.
enum class DeepSleep : std::uint8_t { is_still, counts };
bool does_anything_run(DeepSleep deep);

}  // namespace sallyport::sandbox

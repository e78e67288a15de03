#include "sandbox/memory_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "sandbox/processes.h"

namespace sallyport::sandbox {
namespace {

std::uint64_t number_at(const char* text) {
  while (*text == ' ') ++text;
  std::uint64_t value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) value = value * 10 + static_cast<std::uint64_t>(*text - '0');
  return value;
}

std::uint64_t resident(int directory, const char* process) {
  char text[128];
  if (read_process_file(directory, process, "statm", text, sizeof(text)) == 0) return 0;
  const char* second = std::strchr(text, ' ');
  return second == nullptr ? 0 : number_at(second) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t proportional(int directory, const char* process) {
  char text[2048];
  if (read_process_file(directory, process, "smaps_rollup", text, sizeof(text)) == 0)
    return resident(directory, process);
  const char* line = std::strstr(text, "\nPss:");
  return line == nullptr ? 0 : number_at(line + 5) * 1024;
}

std::uint64_t sum(int directory, std::uint64_t (*of)(int, const char*)) {
  std::uint64_t total = 0;
  for_each_process(directory, [&](const char* process) { total += of(directory, process); });
  return total;
}

}  // namespace

std::uint64_t tree_memory(std::uint64_t exact_above) {
  const int directory = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return 0;
  std::uint64_t used = sum(directory, resident);
  if (used > exact_above) used = sum(directory, proportional);
  ::close(directory);
  return used;
}

}  // namespace sallyport::sandbox

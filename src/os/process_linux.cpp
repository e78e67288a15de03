#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <span>
#include <vector>

#include "os/files.h"
#include "os/process.h"

namespace sallyport::os {
namespace {

// The fields of /proc/<pid>/stat from the third on: behind the last ')', because a process may put
// spaces and parentheses into its own name.
Result<std::vector<std::string>> stat_fields(pid_t pid) {
  TRY(const std::string text, read_small_file("/proc/" + std::to_string(pid) + "/stat", 4096));
  std::vector<std::string> fields;
  std::size_t at = text.rfind(')');
  while (at != std::string::npos && at + 2 < text.size()) {
    const std::size_t end = text.find(' ', at + 2);
    fields.push_back(text.substr(at + 2, end == std::string::npos ? end : end - at - 2));
    at = end == std::string::npos ? end : end - 1;
  }
  if (fields.size() < 20) return Error::make(Code::not_found, "no such process");
  return fields;
}

Result<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) {
    return Error::make(Code::internal_error, "unexpected content in /proc");
  }
  return number;
}

}  // namespace

Result<std::uint64_t> process_start_time(pid_t pid) {
  const auto fields = stat_fields(pid);
  if (!fields) return Error::make(Code::not_found, "no such process");
  return parse_number((*fields)[19]);
}

bool is_process_alive(pid_t pid, std::uint64_t start_time) {
  const auto fields = stat_fields(pid);
  if (!fields) return false;
  // A first thread that has ended is a zombie until the others have; as long, the process has its files and locks.
  const bool has_ended = (*fields)[0] == "Z" || (*fields)[0] == "X";
  const auto threads = parse_number((*fields)[17]);
  if (has_ended && (!threads || *threads <= 1)) return false;
  const auto started = parse_number((*fields)[19]);
  return started && *started == start_time;
}

// Up its own line, until a process of the session has it as a job: whoever else is in the group was started there, too.
bool is_group_orphaned() {
  const pid_t group = ::getpgrp(), session = ::getsid(0);
  for (pid_t above = ::getppid(); above > 0 && ::getsid(above) == session;) {
    if (::getpgid(above) != group) return false;
    const auto fields = stat_fields(above);
    const auto parent = fields ? parse_number((*fields)[1]) : Result<std::uint64_t>(fields.error());
    if (!parent) return false;
    above = static_cast<pid_t>(*parent);
  }
  return true;
}

Result<std::string> boot_id() {
  TRY(std::string text, read_small_file("/proc/sys/kernel/random/boot_id", 64));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<std::uint64_t> memory_pss_kib(pid_t pid) {
  TRY(const std::string text, read_small_file("/proc/" + std::to_string(pid) + "/smaps_rollup", 4096));
  const std::size_t line = text.find("\nPss:");
  if (line == std::string::npos) return Error::make(Code::unavailable, "the kernel does not say");
  const std::size_t digits = text.find_first_of("0123456789", line);
  return parse_number(std::string_view(text).substr(digits));
}

void release_code() {
  const auto release = [](dl_phdr_info* program, std::size_t, void*) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    for (const ElfW(Phdr) & part : std::span(program->dlpi_phdr, program->dlpi_phnum)) {
      if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
      const std::uintptr_t begin = (program->dlpi_addr + part.p_vaddr) & ~(page - 1);
      const std::uintptr_t end = program->dlpi_addr + part.p_vaddr + part.p_memsz;
      ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT(performance-no-int-to-ptr)
    }
    return 1;  // the first is the program itself
  };
  ::dl_iterate_phdr(release, nullptr);
}

void open_standard_descriptors() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

std::uint64_t raise_open_files_limit() {
  // What a warden with 10,000 connections needs, with room; only the privileged may raise the hard limit.
  constexpr rlim_t kWanted = 65536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  rlimit raised{.rlim_cur = std::max(kWanted, limit.rlim_max), .rlim_max = std::max(kWanted, limit.rlim_max)};
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) {
    raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) return limit.rlim_cur;
  }
  return raised.rlim_cur;
}

}  // namespace sallyport::os

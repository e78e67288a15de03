#include "sandbox/tracer.h"

#include <arpa/inet.h>
#include <elf.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "sandbox/child.h"
#include "sandbox/traced_calls.h"

namespace sallyport::sandbox {

const char* traced_call_name(int call) {
  for (const TracedCall& traced : kTracedCalls) {
    if (traced.call == call) return traced.name;
  }
  return "call";
}

#ifdef __x86_64__
namespace {

constexpr int kSyscallStop = SIGTRAP | 0x80;
constexpr std::size_t kPage = 4096;

const TracedCall* find(int call) {
  for (const TracedCall& traced : kTracedCalls) {
    if (traced.call == call) return &traced;
  }
  return nullptr;
}

std::uint64_t argument(const user_regs_struct& registers, int index) {
  const std::uint64_t values[] = {registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8};
  return values[index];
}

// Never across a page boundary in one piece: what follows may not be mapped.
std::size_t read_memory(pid_t pid, std::uint64_t from, char* to, std::size_t size) {
  std::size_t total = 0;
  while (total < size) {
    const std::size_t piece = std::min(size - total, kPage - (from + total) % kPage);
    iovec local{to + total, piece};
    iovec remote{reinterpret_cast<void*>(from + total), piece};
    const ssize_t length = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (length <= 0) break;
    total += static_cast<std::size_t>(length);
    if (std::memchr(to, '\0', total) != nullptr) break;
  }
  return total;
}

void read_path(pid_t pid, int directory, std::uint64_t from, char* to) {
  char path[kMaxRefusalText];
  const std::size_t length = read_memory(pid, from, path, sizeof(path) - 1);
  path[length] = '\0';
  if (path[0] == '/' || path[0] == '\0') {
    std::memcpy(to, path, std::strlen(path) + 1);
    return;
  }
  char link[64];
  if (directory == AT_FDCWD) {
    std::snprintf(link, sizeof(link), "/proc/%d/cwd", pid);
  } else {
    std::snprintf(link, sizeof(link), "/proc/%d/fd/%d", pid, directory);
  }
  ssize_t base = ::readlink(link, to, kMaxRefusalText - 1);
  if (base < 0) base = 0;
  to[base] = '\0';
  const std::size_t size = std::strlen(path) + 1;
  if (static_cast<std::size_t>(base) + 1 + size > kMaxRefusalText) return;
  if (base > 0) to[base++] = '/';
  std::memcpy(to + base, path, size);
}

void read_address(pid_t pid, std::uint64_t from, char* to) {
  alignas(sockaddr_storage) char bytes[sizeof(sockaddr_storage)] = {};
  iovec local{bytes, sizeof(sockaddr_un)};
  iovec remote{reinterpret_cast<void*>(from), sizeof(sockaddr_un)};
  if (::process_vm_readv(pid, &local, 1, &remote, 1, 0) < 16) {
    local.iov_len = remote.iov_len = sizeof(sockaddr_in);
    (void)::process_vm_readv(pid, &local, 1, &remote, 1, 0);
  }
  const auto* any = reinterpret_cast<const sockaddr*>(bytes);
  char text[INET6_ADDRSTRLEN] = {};
  if (any->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(bytes);
    ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    std::snprintf(to, kMaxRefusalText, "%s:%u", text, ntohs(in->sin_port));
  } else if (any->sa_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(bytes);
    ::inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof(text));
    std::snprintf(to, kMaxRefusalText, "[%s]:%u", text, ntohs(in->sin6_port));
  } else if (any->sa_family == AF_UNIX) {
    const auto* in = reinterpret_cast<const sockaddr_un*>(bytes);
    std::snprintf(to, kMaxRefusalText, "%s%.100s", in->sun_path[0] == '\0' ? "@" : "",
                  in->sun_path + (in->sun_path[0] == '\0' ? 1 : 0));
  }
}

bool is_refusal(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == ENOENT || error == ENETUNREACH ||
         error == ECONNREFUSED || error == EXDEV || error == EAFNOSUPPORT;
}

bool describe(pid_t pid, Refusal& refusal) {
  user_regs_struct registers{};
  iovec data{&registers, sizeof(registers)};
  if (::ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &data) != 0) return false;
  const auto result = static_cast<std::int64_t>(registers.rax);
  const TracedCall* traced = find(static_cast<int>(registers.orig_rax));
  if (traced == nullptr || result >= 0 || !is_refusal(static_cast<int>(-result))) return false;
  refusal.call = traced->call;
  refusal.error = static_cast<int>(-result);
  refusal.target[0] = '\0';
  if (traced->call == SYS_connect) {
    read_address(pid, argument(registers, traced->path), refusal.target);
  } else {
    const int directory = traced->directory < 0 ? AT_FDCWD : static_cast<int>(argument(registers, traced->directory));
    read_path(pid, directory, argument(registers, traced->path), refusal.target);
  }
  return refusal.target[0] != '\0';
}

}  // namespace

bool begin_traced() {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return false;
  ::kill(::getpid(), SIGSTOP);
  return load_filter(Filter::traced) == 0;
}

bool adopt_traced(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status)) return false;
  constexpr long kOptions = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                            PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
  return ::ptrace(PTRACE_SETOPTIONS, pid, nullptr, kOptions) == 0 && ::ptrace(PTRACE_CONT, pid, nullptr, nullptr) == 0;
}

bool handle_stop(pid_t pid, int status, Refusal& refusal) {
  const int event = status >> 16;
  const int number = WSTOPSIG(status);
  if (event == PTRACE_EVENT_SECCOMP) {
    ::ptrace(PTRACE_SYSCALL, pid, nullptr, nullptr);  // on to its result
    return false;
  }
  const bool was_refused = number == kSyscallStop && describe(pid, refusal);
  // A new process starts with a SIGSTOP that is the tracer's own business; so are all the traps.
  const bool is_ours = event != 0 || number == kSyscallStop || number == SIGTRAP || number == SIGSTOP;
  ::ptrace(PTRACE_CONT, pid, nullptr, is_ours ? 0L : static_cast<long>(number));
  return was_refused;
}

#else

bool begin_traced() {
  errno = ENOSYS;
  return false;
}
bool adopt_traced(pid_t) { return false; }
bool handle_stop(pid_t, int, Refusal&) { return false; }

#endif

}  // namespace sallyport::sandbox

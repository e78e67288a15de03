#include "sandbox/violations.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "sandbox/filter_rules.h"

namespace sallyport::sandbox {
namespace {

const FilterRule* rule_of(int call) {
  for (const FilterRule& rule : kCommandRules) {
    if (rule.call == call) return &rule;
  }
  return nullptr;
}

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string target_of(const seccomp_data& data) {
  const auto at = [&](int index) { return static_cast<std::uint64_t>(data.args[index]); };
  if (data.nr == SYS_socket) return "family " + std::to_string(at(0)) + " protocol " + std::to_string(at(2));
  if (data.nr == SYS_ioctl) return "request " + hexadecimal(at(1) & 0xffffffff);
  if (data.nr == SYS_clone || data.nr == SYS_unshare) return "flags " + hexadecimal(at(0));
  return {};
}

}  // namespace

void ViolationLog::add(Violation violation) {
  ++total_;
  for (Violation& seen : entries_) {
    if (seen.operation != violation.operation || seen.target != violation.target) continue;
    ++seen.count;
    return;
  }
  if (entries_.size() == kMaxEntries) {
    ++dropped_;
    return;
  }
  entries_.push_back(std::move(violation));
}

bool ViolationLog::serve(int listener) {
  for (int served = 0; served < kMostAtOnce; ++served) {
    pollfd waiting{listener, POLLIN, 0};
    if (::poll(&waiting, 1, 0) < 0) return errno == EINTR;
    if ((waiting.revents & POLLIN) == 0) return (waiting.revents & (POLLHUP | POLLERR)) == 0;
    seccomp_notif asked{};
    if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;  // the caller was killed meanwhile
      return false;
    }
    const FilterRule* rule = rule_of(asked.data.nr);
    seccomp_notif_resp answer{};
    answer.id = asked.id;
    answer.error = -(rule != nullptr ? rule->error : EPERM);
    if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) != 0 && errno != ENOENT) return false;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    add({rule != nullptr ? rule->name : "call " + std::to_string(asked.data.nr), target_of(asked.data),
         rule != nullptr ? rule->rule : "unknown", -answer.error,
         std::chrono::duration_cast<std::chrono::milliseconds>(now).count()});
  }
  return true;
}

}  // namespace sallyport::sandbox

// The network that a sandbox is given.
#include "sandbox/network.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/unique_fd.h"

namespace sallyport::sandbox {
namespace {

// How large a segment the loopback takes; nothing where the kernel knows no such bound.
std::optional<std::uint32_t> segment_bytes() {
  constexpr unsigned short kGsoIpv4MaxSize = 63;
  const UniqueFd route{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)};
  struct {
    nlmsghdr head{};
    ifinfomsg link{};
  } question;
  question.head.nlmsg_len = sizeof question;
  question.head.nlmsg_type = RTM_GETLINK;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  question.link.ifi_index = 1;
  std::array<char, 16384> answer{};
  if (::send(route.get(), &question, sizeof question, 0) < 0) return std::nullopt;
  const ssize_t size = ::recv(route.get(), answer.data(), answer.size(), 0);
  std::string_view left(answer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  left.remove_prefix(std::min(left.size(), sizeof question));
  for (rtattr each{}; left.size() >= sizeof each;) {
    std::memcpy(&each, left.data(), sizeof each);
    if (each.rta_type == kGsoIpv4MaxSize) {
      std::uint32_t value = 0;
      std::memcpy(&value, left.data() + sizeof each, sizeof value);
      return value;
    }
    left.remove_prefix(
        std::min<std::size_t>(left.size(), std::max<std::size_t>(4, (std::size_t{each.rta_len} + 3) / 4 * 4)));
  }
  return std::nullopt;
}

// Before Linux 6.3 it does without them.
TEST(Network, TakesLargeSegmentsWhereThereIsAProxyAndTheKernelKnowsThem) {
  const auto wanted = segment_bytes() ? std::optional(500'000U) : std::nullopt;
  // A process that is not root can have a network too, if it has no threads.
  EXPECT_EXIT(
      {
        if (::geteuid() != 0) ::unshare(CLONE_NEWUSER);
        int listener = -1;
        const bool is_made = ::unshare(CLONE_NEWNET) == 0 && set_up_network(&listener).is_ok();
        ::_exit(is_made && listener >= 0 && segment_bytes() == wanted ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sallyport::sandbox

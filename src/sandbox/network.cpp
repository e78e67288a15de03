#include "sandbox/network.h"

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "sandbox/spec.h"

namespace sallyport::sandbox {
namespace {

constexpr int kLoopbackIndex = 1;                 // of every network namespace
constexpr unsigned short kGsoIpv4MaxSize = 63;    // IFLA_GSO_IPV4_MAX_SIZE, Linux 6.3
constexpr std::uint32_t kSegmentBytes = 500'000;  // the kernel's limit is 524280, with headers

bool bring_loopback_up() {
  const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return false;
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool is_up = ::ioctl(any, SIOCSIFFLAGS, &request) == 0;
  ::close(any);
  return is_up;
}

// Everything that leaves a sandbox passes its loopback first: one large segment there costs no more than one of the
// usual 64 KiB. An older kernel ignores the attribute, and whatever else goes wrong, it works without.
void enlarge_segments() {
  struct {
    nlmsghdr head;
    ifinfomsg link;
    rtattr attribute;
    std::uint32_t value;
  } message{};
  message.head.nlmsg_len = sizeof message;
  message.head.nlmsg_type = RTM_NEWLINK;
  message.head.nlmsg_flags = NLM_F_REQUEST;
  message.link.ifi_index = kLoopbackIndex;
  message.attribute.rta_len = RTA_LENGTH(sizeof message.value);
  message.attribute.rta_type = kGsoIpv4MaxSize;
  message.value = kSegmentBytes;
  const int route = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (route < 0) return;
  [[maybe_unused]] const ssize_t sent = ::send(route, &message, sizeof message, 0);
  ::close(route);
}

// Without SO_REUSEADDR and SO_REUSEPORT: nobody inside can take the port's place.
int listen_for_proxy() {
  constexpr int kBacklog = 1024;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kProxyPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener < 0 || ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener, kBacklog) != 0) {
    return -1;
  }
  return listener;
}

}  // namespace

bool set_up_network(int* listener) {
  if (!bring_loopback_up()) return false;
  if (listener == nullptr) return true;
  enlarge_segments();
  *listener = listen_for_proxy();
  return *listener >= 0;
}

}  // namespace sallyport::sandbox

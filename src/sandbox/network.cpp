#include "sandbox/network.h"

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstdint>
#include <cstring>

#include "sandbox/spec.h"

namespace sallyport::sandbox {
namespace {

constexpr int kLoopbackIndex = 1;                 // of every network namespace
constexpr unsigned short kGsoIpv4MaxSize = 63;    // IFLA_GSO_IPV4_MAX_SIZE, Linux 6.3
constexpr std::uint32_t kSegmentBytes = 500'000;  // the kernel's limit is 524280, with headers

Answer bring_loopback_up() {
  const Answer any = raw_call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (!any.is_ok()) return any;
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const Answer up = raw_call(SYS_ioctl, any.value, SIOCSIFFLAGS, &request);
  raw_call(SYS_close, any.value);
  return up;
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
  const Answer route = raw_call(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (!route.is_ok()) return;
  raw_call(SYS_sendto, route.value, &message, sizeof message, 0, nullptr, 0);
  raw_call(SYS_close, route.value);
}

// Without SO_REUSEADDR and SO_REUSEPORT: nobody inside can take the port's place.
Answer listen_for_proxy() {
  constexpr int kBacklog = 1024;
  const Answer listener = raw_call(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (!listener.is_ok()) return listener;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kProxyPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (const Answer bound = raw_call(SYS_bind, listener.value, &address, sizeof(address)); !bound.is_ok()) return bound;
  if (const Answer open = raw_call(SYS_listen, listener.value, kBacklog); !open.is_ok()) return open;
  return listener;
}

}  // namespace

Answer set_up_network(int* listener) {
  const Answer up = bring_loopback_up();
  if (!up.is_ok() || listener == nullptr) return up;
  enlarge_segments();
  const Answer made = listen_for_proxy();
  *listener = static_cast<int>(made.value);
  return made;
}

}  // namespace sallyport::sandbox

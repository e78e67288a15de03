// Sockets of every family, towards whatever the host listens on.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "probe.h"

namespace probe {
namespace {

int make_socket(const Arguments& args) {
  return judge(static_cast<long>(::socket(std::stoi(args[0]), std::stoi(args[1]), std::stoi(args[2]))));
}

int connect_inet(const Arguments& args, int type) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(args[1])));
  if (::inet_pton(AF_INET, args[0].c_str(), &to.sin_addr) != 1) return kBroken;
  const int fd = ::socket(AF_INET, type, 0);
  if (fd < 0) return judge(-1L);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) return judge(-1L);
  if (type == SOCK_STREAM) return judge(0L);
  // A datagram to nobody is accepted at first; the second one meets the refusal of the first.
  (void)!::send(fd, "x", 1, MSG_NOSIGNAL);
  ::usleep(20'000);
  return judge(static_cast<long>(::send(fd, "x", 1, MSG_NOSIGNAL)));
}
int connect_tcp(const Arguments& args) { return connect_inet(args, SOCK_STREAM); }
int send_udp(const Arguments& args) { return connect_inet(args, SOCK_DGRAM); }

int connect_unix(const std::string& name, bool is_abstract) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  const std::size_t shift = is_abstract ? 1 : 0;
  if (name.size() + shift >= sizeof(to.sun_path)) return kBroken;
  std::memcpy(to.sun_path + shift, name.data(), name.size());
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + shift + name.size() + (is_abstract ? 0 : 1));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return judge(-1L);
  return judge(static_cast<long>(::connect(fd, reinterpret_cast<const sockaddr*>(&to), length)));
}
int connect_path(const Arguments& args) { return connect_unix(args[0], false); }
int connect_abstract(const Arguments& args) { return connect_unix(args[0], true); }

constexpr Attack kAttacks[] = {
    {"socket", 3, make_socket},        {"connect-tcp", 2, connect_tcp},           {"send-udp", 2, send_udp},
    {"connect-unix", 1, connect_path}, {"connect-abstract", 1, connect_abstract},
};

}  // namespace

std::span<const Attack> network_attacks() { return kAttacks; }

}  // namespace probe

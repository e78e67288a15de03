#include "egress/fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "os/packets.h"

namespace sallyport::egress {
namespace {

constexpr int kPatienceMs = static_cast<int>(sallyport::testing::kPatience.count());

sockaddr_in address_of(const std::string& address, std::uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  ::inet_pton(AF_INET, address.c_str(), &made.sin_addr);
  return made;
}

std::string http_outcome(const std::string& head) {
  const std::string status = head.size() > 12 ? head.substr(9, 3) : head;
  if (status[0] == '2') return "allowed";
  const std::map<std::string, std::string> names = {{"403", "refused"}, {"400", "malformed"},   {"429", "quota"},
                                                    {"503", "busy"},    {"502", "unreachable"}, {"504", "timeout"}};
  const auto found = names.find(status);
  return found == names.end() ? status : found->second;
}

std::string socks_outcome(const std::string& reply) {
  if (reply.size() < 2) return "ended";
  constexpr const char* kNames[] = {"allowed",     "failed",  "refused", "?",           "no name",
                                    "unreachable", "timeout", "command", "address type"};
  const auto code = static_cast<unsigned char>(reply[1]);
  return code < std::size(kNames) ? kNames[code] : "?";
}

}  // namespace

UniqueFd listen_on(const std::string& address, std::uint16_t& port, int backlog) {
  UniqueFd listener{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int one = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in bound = address_of(address, port);
  socklen_t length = sizeof bound;
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&bound), length), 0) << address << ":" << port;
  EXPECT_EQ(::listen(listener.get(), backlog), 0);
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  port = ntohs(bound.sin_port);
  return listener;
}

// ---- Wire ----

Wire::Wire(UniqueFd fd) : fd_(std::move(fd)) {
  const timeval patience{kPatienceMs / 1000, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

bool Wire::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void Wire::end() const { ::shutdown(fd_.get(), SHUT_WR); }

bool Wire::fill() {
  char block[65536];
  const ssize_t count = ::recv(fd_.get(), block, sizeof block, 0);
  if (count > 0) in_.append(block, static_cast<std::size_t>(count));
  return count > 0;
}

std::string Wire::read_until(std::string_view mark) {
  for (;;) {
    const std::size_t found = mark.empty() ? std::string::npos : in_.find(mark);
    if (found != std::string::npos) {
      std::string part = in_.substr(0, found + mark.size());
      in_.erase(0, part.size());
      return part;
    }
    if (!fill()) return std::exchange(in_, {});
  }
}

std::string Wire::read(std::size_t count) {
  while (in_.size() < count && fill()) {
  }
  std::string part = in_.substr(0, count);
  in_.erase(0, part.size());
  return part;
}

bool Wire::is_ended() {
  char block[4096];
  for (;;) {
    const ssize_t count = ::recv(fd_.get(), block, sizeof block, 0);
    if (count == 0) return true;
    if (count < 0) return errno == ECONNRESET;
  }
}

// ---- Upstream ----

Upstream::Upstream(Handler handler, const std::string& address, std::uint16_t port) : port_(port) {
  listener_ = listen_on(address, port_);
  acceptor_ = std::thread([this, handler = std::move(handler)] {
    for (;;) {
      UniqueFd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
      if (!fd) return;
      ++connections_;
      const std::lock_guard lock(mutex_);
      open_.push_back(::dup(fd.get()));
      threads_.emplace_back([handler, connection = std::make_shared<Wire>(std::move(fd))] { handler(*connection); });
    }
  });
}

Upstream::~Upstream() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (const int fd : open_) {
    ::shutdown(fd, SHUT_RDWR);
    ::close(fd);
  }
  for (std::thread& thread : threads_) thread.join();
}

void Upstream::echo(Wire& wire) {
  for (;;) {
    const std::string part = wire.read(1);
    if (part.empty() || !wire.send(part)) break;
  }
  wire.end();
}

void Upstream::hello(Wire& wire) {
  while (!wire.read_until("\r\n\r\n").empty()) {
    if (!wire.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")) return;
  }
}

// ---- Egress ----

Egress::Egress() {
  listener_ = listen_on("127.0.0.1", port_, 1024);
  write_hosts();
  start_proxy();
}

Egress::~Egress() { stop_proxy(); }

void Egress::start_proxy(const std::function<void()>& before_exec, bool has_hosts) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const std::string hosts = directory_.path() + "/hosts";
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (before_exec) before_exec();
    ::dup2(ends[1], 3);
    ::execl(SALLYPORT_EGRESS, SALLYPORT_EGRESS, has_hosts ? "--hosts" : nullptr, hosts.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  socket_ = UniqueFd(ends[0]);
}

void Egress::stop_proxy() {
  socket_.reset();
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Egress::restart_proxy() {
  stop_proxy();
  start_proxy();
  order(Serve{"c", policy_, {}}, listener_.get());
}

void Egress::restart_proxy(const std::function<void()>& before_exec, bool has_hosts) {
  stop_proxy();
  start_proxy(before_exec, has_hosts);
}

void Egress::end_proxy() const { ::shutdown(socket_.get(), SHUT_WR); }

std::uint16_t Egress::serve(const std::string& container, const policy::NetPolicy& policy) {
  std::uint16_t port = 0;
  others_.push_back(listen_on("127.0.0.1", port, 1024));
  order(Serve{container, policy, {}}, others_.back().get());
  return port;
}

void Egress::order(const ToProxy& order, int fd) const {
  const auto packet = encode(order);
  ASSERT_TRUE(packet);
  ASSERT_TRUE(os::send_packet(socket_.get(), *packet, fd < 0 ? std::vector<int>() : std::vector{fd}, MSG_DONTWAIT));
}

policy::NetPolicy Egress::policy_of(std::vector<std::string> allow, std::vector<std::string> deny,
                                    policy::NetLimits limits) {
  auto policy = policy::NetPolicy::make(allow, deny, limits);
  EXPECT_TRUE(policy) << policy.error().message;
  return policy ? *policy : policy::NetPolicy();
}

void Egress::allow(std::vector<std::string> allow, std::vector<std::string> deny, policy::NetLimits limits) {
  policy_ = policy_of(std::move(allow), std::move(deny), limits);
  order(Serve{"c", policy_, {}}, listener_.get());
}

void Egress::update(const policy::NetPolicy& policy) { order(Update{"c", policy}); }

void Egress::name(const std::string& host, const std::string& addresses) {
  names_[host] = addresses;
  write_hosts();
}

void Egress::write_hosts() const {
  const std::string path = directory_.path() + "/hosts";
  {
    std::ofstream file(path + ".new", std::ios::trunc);
    for (const auto& [host, addresses] : names_) {
      std::string rest = addresses;
      while (!rest.empty()) {
        const std::size_t space = rest.find(' ');
        file << rest.substr(0, space) << " " << host << "\n";
        rest = space == std::string::npos ? "" : rest.substr(space + 1);
      }
    }
  }
  ::rename((path + ".new").c_str(), path.c_str());
}

Wire Egress::connect_to(std::uint16_t port) {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const sockaddr_in address = address_of("127.0.0.1", port);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return Wire(std::move(fd));
}

std::string Egress::ask(Wire& wire, Protocol protocol, const std::string& host, std::uint16_t port) {
  const std::string target = host + ":" + std::to_string(port);
  if (protocol == Protocol::connect) {
    wire.send("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n");
    return http_outcome(wire.read_until("\r\n\r\n"));
  }
  if (protocol == Protocol::http) {
    wire.send("GET http://" + target + "/ HTTP/1.1\r\nHost: " + target + "\r\n\r\n");
    return http_outcome(wire.read_until("\r\n\r\n"));
  }
  std::string request("\x05\x01\x00\x05\x01\x00", 6);
  const std::string bare = host.starts_with('[') ? host.substr(1, host.size() - 2) : host;
  if (const auto parsed = policy::parse_address(bare)) {
    request += parsed->is_v6 ? '\x04' : '\x01';
    request.append(reinterpret_cast<const char*>(parsed->bytes.data()), parsed->is_v6 ? 16 : 4);
  } else {
    request += '\x03';
    request += static_cast<char>(host.size());
    request += host;
  }
  request += static_cast<char>(port >> 8);
  request += static_cast<char>(port & 0xff);
  wire.send(request);
  wire.read(2);
  return socks_outcome(wire.read(10));
}

std::string Egress::ask(Protocol protocol, const std::string& host, std::uint16_t port) const {
  Wire wire = connect();
  return ask(wire, protocol, host, port);
}

std::string Egress::ask_all(const std::string& host, std::uint16_t port) const {
  std::string all, first;
  bool is_same = true;
  for (const Protocol protocol : kAll) {
    const std::string outcome = ask(protocol, host, port);
    if (first.empty()) first = outcome;
    is_same = is_same && outcome == first;
    all += (all.empty() ? "" : ", ") + outcome;
  }
  return is_same ? first : all;
}

std::optional<Report> Egress::next_report() {
  auto packet = os::receive_packet(socket_.get(), MSG_DONTWAIT);
  if (!packet) return std::nullopt;
  auto report = decode_report(decoder_, packet->bytes.view());
  if (!report) return std::nullopt;
  return std::move(*report);
}

std::vector<Report> Egress::last_reports() {
  std::vector<Report> all;
  for (;;) {
    const pollfd waiting{socket_.get(), POLLIN, 0};
    pollfd waits[] = {waiting};
    if (::poll(waits, 1, kPatienceMs) <= 0) break;
    auto packet = os::receive_packet(socket_.get(), 0);
    if (!packet || packet->bytes.empty()) break;
    if (auto report = decode_report(decoder_, packet->bytes.view())) all.push_back(std::move(*report));
  }
  return all;
}

Report Egress::report_where(const std::function<bool(const Report&)>& claim) {
  std::optional<Report> found;
  EXPECT_TRUE(eventually([&] {
    found = next_report();
    return found && claim(*found);
  })) << "no such report";
  return found.value_or(Report());
}

std::string Egress::client_hello(const std::string& server_name) {
  const auto number = [](std::size_t value, int bytes) {
    std::string text;
    for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  std::string extensions = number(43, 2) + number(3, 2) + std::string("\x02\x03\x04", 3);  // supported versions
  if (!server_name.empty()) {
    const std::string entry = std::string(1, '\0') + number(server_name.size(), 2) + server_name;
    const std::string list = number(entry.size(), 2) + entry;
    extensions += number(0, 2) + number(list.size(), 2) + list;
  }
  const std::string body = "\x03\x03" + std::string(32, 'r') + std::string(1, '\0') + number(2, 2) + "\x13\x01" +
                           std::string("\x01\x00", 2) + number(extensions.size(), 2) + extensions;
  const std::string handshake = "\x01" + number(body.size(), 3) + body;
  return std::string("\x16\x03\x01", 3) + number(handshake.size(), 2) + handshake;
}

}  // namespace sallyport::egress

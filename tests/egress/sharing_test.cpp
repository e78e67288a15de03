// What many connections at once, and containers beside each other, may take; and that none of it goes untold.
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "egress/fixture.h"
#include "egress/limits.h"
#include "egress/sums.h"

namespace sallyport::egress {
namespace {

class Sharing : public Egress {
 protected:
  // All ask before anyone is answered; how often each answer came.
  static std::map<std::string, int> ask_at_once(std::vector<Wire>& wires, const std::string& target) {
    for (const Wire& wire : wires) wire.send("CONNECT " + target + " HTTP/1.1\r\n\r\n");
    std::map<std::string, int> answers;
    for (Wire& wire : wires) ++answers[wire.read_until("\r\n\r\n").substr(9, 3)];
    return answers;
  }
  std::vector<Wire> connections(int count) const {
    std::vector<Wire> wires;
    for (int i = 0; i < count; ++i) wires.push_back(connect());
    return wires;
  }
};

TEST_F(Sharing, LimitsHoldForManyThatAskByNameAtOnce) {
  Upstream server(Upstream::echo);
  const std::string port = std::to_string(server.port());
  name("web.test", "127.0.0.1");
  policy::NetLimits limits;
  limits.tunnels = 2;
  allow({"web.test:" + port, "127.0.0.1:" + port}, {}, limits);
  std::vector<Wire> wires = connections(60);
  auto answers = ask_at_once(wires, "web.test:" + port);
  EXPECT_EQ(answers["200"], 2);
  EXPECT_EQ(answers["503"], 58);

  policy::NetLimits few;
  few.requests = 5;
  allow({"web.test:" + port, "127.0.0.1:" + port}, {}, few);
  wires = connections(60);
  answers = ask_at_once(wires, "web.test:" + port);
  EXPECT_EQ(answers["200"], 5);
  EXPECT_EQ(answers["429"], 55);
}

TEST_F(Sharing, WhatCameToNothingIsGivenBack) {
  Upstream server(Upstream::hello);
  const std::string port = std::to_string(server.port());
  std::uint16_t closed = 0;
  {
    const UniqueFd listener = listen_on("127.0.0.1", closed);
  }
  name("web.test", "127.0.0.1");
  policy::NetLimits limits;
  limits.tunnels = 1;
  limits.requests = 1;
  const std::string shut = std::to_string(closed);
  allow({"web.test:" + port, "127.0.0.1:" + port, "web.test:" + shut, "127.0.0.1:" + shut, "none.test:80"}, {}, limits);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(Protocol::connect, "none.test", 80), "unreachable");
    EXPECT_EQ(ask(Protocol::connect, "web.test", closed), "unreachable");
  }
  EXPECT_EQ(ask(Protocol::http, "web.test", server.port()), "allowed");
  EXPECT_EQ(ask(Protocol::http, "web.test", server.port()), "quota");
}

constexpr const char* kOwnAddress = "93.184.216.34";  // no special one: of this machine all the same

// A network and an /etc of its own, where the name server takes every question and answers none.
void enter_silence(const std::string& directory, const int (&life)[2]) {
  const bool is_root = ::geteuid() == 0;
  if (::unshare((is_root ? 0 : CLONE_NEWUSER) | CLONE_NEWNET | CLONE_NEWNS) != 0) ::_exit(126);
  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  for (const char* name : {"resolv.conf", "hosts"}) {
    if (::mount((directory + "/" + name).c_str(), (std::string("/etc/") + name).c_str(), nullptr, MS_BIND, nullptr)) {
      ::_exit(125);
    }
  }
  const int server = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ifreq another{};
  std::strcpy(another.ifr_name, "lo:1");
  ::inet_pton(AF_INET, kOwnAddress, &address.sin_addr);
  std::memcpy(&another.ifr_addr, &address, sizeof address);
  address.sin_port = htons(53);
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  if (::ioctl(server, SIOCSIFFLAGS, &loopback) != 0 || ::ioctl(server, SIOCSIFADDR, &another) != 0 ||
      ::bind(server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::_exit(124);
  }
  // The proxy closes what it does not know: somebody else holds the server's socket, until the test lets go. (The death
  // of a parent that is confined as the proxy is tells nobody.)
  if (::fork() == 0) {
    ::close(life[1]);
    char nothing = 0;
    [[maybe_unused]] const ssize_t end = ::read(life[0], &nothing, 1);
    ::_exit(0);
  }
}

// The proxy there, with the names of the test as /etc/hosts.
class Silenced : public Sharing {
 protected:
  void restart_in_silence() {
    std::ofstream(directory() + "/resolv.conf") << "nameserver 127.0.0.1\n";
    int life[2];
    ASSERT_EQ(::pipe2(life, O_CLOEXEC), 0);
    reading_ = UniqueFd(life[0]);
    writing_ = UniqueFd(life[1]);
    restart_proxy([&] { enter_silence(directory(), life); }, false);
  }

 private:
  UniqueFd reading_, writing_;
};

TEST_F(Silenced, ANameOfThisMachinesOwnAddressIsRefused) {
  name("own.test", kOwnAddress);
  restart_in_silence();
  const std::uint16_t port = serve("c", policy_of({"own.test:80"}));
  Wire wire = connect_to(port);
  EXPECT_EQ(ask(wire, Protocol::connect, "own.test", 80), "refused");
  EXPECT_NE(wire.read_all().find("an address of this machine"), std::string::npos);
}

TEST_F(Silenced, NamesThatNobodyAnswersForStopNobodyElse) {
  name("web.test", "127.0.0.1");
  restart_in_silence();
  const std::uint16_t slow = serve("slow", policy_of({"*.slow.example"}));
  const std::uint16_t quick = serve("quick", policy_of({"web.test:80", "127.0.0.1:80"}));
  std::vector<Wire> wires;
  constexpr int kBeyond = 6;
  for (std::size_t i = 0; i < kMaxLookupsEach + kBeyond; ++i) {
    wires.push_back(connect_to(slow));
    wires.back().send("CONNECT n" + std::to_string(i) + ".slow.example:443 HTTP/1.1\r\n\r\n");
  }
  // Its share is used up: whoever is beyond it is told so at once.
  int refused = 0;
  for (int i = 0; i < kBeyond; ++i) {
    const Report report = report_where([](const Report& each) { return each.container == "slow"; });
    refused += report.code == Code::rate_limited ? 1 : 0;
  }
  EXPECT_EQ(refused, kBeyond);
  // Nobody serves port 80 there, so that the name was looked up is told by the connection that failed.
  Wire wire = connect_to(quick);
  EXPECT_EQ(ask(wire, Protocol::connect, "web.test", 80), "unreachable");
  Wire socks = connect_to(quick);
  EXPECT_EQ(ask(socks, Protocol::socks, "web.test", 80), "unreachable");
}

TEST_F(Sharing, OneContainersConnectionsLeaveDescriptorsForAnothers) {
  Upstream server(Upstream::echo);
  const policy::NetPolicy policy = policy_of({"127.0.0.1:" + std::to_string(server.port())});
  restart_proxy([] {
    const rlimit few{256, 256};
    ::setrlimit(RLIMIT_NOFILE, &few);
  });
  const std::uint16_t greedy = serve("greedy", policy), modest = serve("modest", policy);
  std::vector<Wire> wires;
  std::map<std::string, int> answers;
  for (int i = 0; i < 120; ++i) {
    wires.push_back(connect_to(greedy));
    ++answers[ask(wires.back(), Protocol::connect, "127.0.0.1", server.port())];
  }
  EXPECT_GE(answers["allowed"], static_cast<int>(kLeastShare));
  EXPECT_GT(answers["busy"], 0);
  for (std::size_t i = 0; i < kLeastShare; ++i) {
    wires.push_back(connect_to(modest));
    EXPECT_EQ(ask(wires.back(), Protocol::connect, "127.0.0.1", server.port()), "allowed") << i;
  }
}

TEST_F(Sharing, AFloodOfRefusalsHidesNothing) {
  allow({"none.test:80"});
  constexpr std::uint64_t kAsked = 300;
  for (std::uint64_t i = 0; i < kAsked; ++i) ASSERT_EQ(ask(Protocol::connect, "noise.test", 443), "refused");
  ASSERT_EQ(ask(Protocol::connect, "target.test", 443), "refused");
  end_proxy();
  std::map<std::string, std::uint64_t> counts;
  std::size_t told = 0;
  for (const Report& report : last_reports()) {
    counts[report.host] += report.count;
    ++told;
  }
  EXPECT_EQ(counts["noise.test"], kAsked);
  EXPECT_EQ(counts["target.test"], 1U);
  EXPECT_LT(told, kAsked);
}

TEST_F(Sharing, AFloodIsToldWhileItsContainerLives) {
  allow({"none.test:80"});
  for (int i = 0; i < 150; ++i) ASSERT_EQ(ask(Protocol::connect, "noise.test", 443), "refused");
  ASSERT_EQ(ask(Protocol::connect, "target.test", 443), "refused");
  EXPECT_EQ(report_where([](const Report& each) { return each.host == "target.test"; }).count, 1U);
}

TEST_F(Sharing, WhatIsNoRequestIsReportedToo) {
  Upstream server(Upstream::hello);
  const std::string target = "127.0.0.1:" + std::to_string(server.port());
  allow({target});
  const auto send = [&](const std::string& bytes) {
    Wire wire = connect();
    wire.send(bytes);
    wire.read_all();
  };
  const auto reported = [&](Protocol protocol, const std::string& reason) {
    const Report report = report_where([](const Report& each) { return each.kind == Report::Kind::refused; });
    EXPECT_TRUE(is_violation(report)) << reason;
    EXPECT_EQ(report.protocol, protocol);
    EXPECT_NE(report.reason.find(reason), std::string::npos) << report.reason;
  };
  const std::string head = "POST http://" + target + "/ HTTP/1.1\r\n";
  send(head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
  reported(Protocol::http, "both Content-Length and Transfer-Encoding");
  send(head + "X: " + std::string(kMaxHeadBytes, 'x') + "\r\n\r\n");
  reported(Protocol::http, "too large");
  send(head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n");
  reported(Protocol::http, "the request's body is refused");
  send(std::string("\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", 13));
  reported(Protocol::socks, "only CONNECT");
  send(std::string("\x05\x01\x00\x05\x01\x00\x09\x7f\x00\x00\x01\x00\x50", 13));
  reported(Protocol::socks, "only CONNECT");
}

// Answers each request and ends; one after the other.
class OneByOne {
 public:
  OneByOne() {
    listener_ = listen_on("127.0.0.1", port, 1024);
    thread_ = std::thread([this] {
      for (;;) {
        UniqueFd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
        if (!fd) return;
        Wire wire(std::move(fd));
        wire.read_until("\r\n\r\n");
        wire.send("HTTP/1.1 204 No Content\r\n\r\n");
      }
    });
  }
  ~OneByOne() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  OneByOne(const OneByOne&) = delete;
  OneByOne& operator=(const OneByOne&) = delete;

  std::uint16_t port = 0;

 private:
  UniqueFd listener_;
  std::thread thread_;
};

TEST_F(Sharing, NoConnectionIsMissingWhereNobodyReadsTheReports) {
  const OneByOne server;
  const std::string target = "127.0.0.1:" + std::to_string(server.port);
  allow({target});
  constexpr std::uint64_t kAsked = kMaxReports / 2 + 800;  // two reports each
  Wire wire = connect();
  for (std::uint64_t i = 0; i < kAsked; ++i) {
    wire.send("GET http://" + target + "/ HTTP/1.1\r\n\r\n");
    ASSERT_NE(wire.read_until("\r\n\r\n").find("204"), std::string::npos) << i;
  }
  wire.end();
  std::uint64_t opened = 0, received = 0;
  EXPECT_TRUE(eventually([&] {
    while (const auto report = next_report()) {
      if (report->kind == Report::Kind::opened) opened += report->count;
      if (report->kind == Report::Kind::closed) received += report->received;
    }
    return opened >= kAsked && received >= kAsked * std::strlen("HTTP/1.1 204 No Content\r\n\r\n");
  })) << opened;
  EXPECT_EQ(opened, kAsked);
  EXPECT_EQ(received, kAsked * std::strlen("HTTP/1.1 204 No Content\r\n\r\n"));
}

TEST(Sums, JoinWhatIsAlikeAndBoundWhatIsNot) {
  Sums sums;
  Report report;
  report.container = "c";
  report.code = Code::policy_denied;
  const std::size_t hosts = kMaxHostsCounted + 500;
  for (std::size_t i = 0; i < hosts; ++i) {
    report.host = "h" + std::to_string(i);
    sums.add(report);
    sums.add(report);
  }
  std::uint64_t all = 0, others = 0;
  std::size_t told = 0;
  for (; !sums.is_empty(); ++told) {
    const Report each = sums.take();
    all += each.count;
    if (each.host == kOtherHosts) others += each.count;
    if (told == 0) {
      EXPECT_EQ(each.host, "h0") << "the oldest first";
    }
  }
  EXPECT_EQ(all, 2 * hosts);
  EXPECT_EQ(others, 2 * 500U);
  EXPECT_EQ(told, kMaxHostsCounted + 1);
}

}  // namespace
}  // namespace sallyport::egress

// What a container gets, within its limits, and what is told about it.
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <fstream>
#include <thread>

#include "egress/fixture.h"
#include "egress/relay.h"

namespace sallyport::egress {
namespace {

class Service : public Egress {
 protected:
  std::string target(const Upstream& server) const { return "127.0.0.1:" + std::to_string(server.port()); }
  // What sends has begun, and has come to where nobody takes more.
  static void wait_until_stuck(const std::atomic<std::size_t>& sent, std::size_t more_than = 0) {
    ASSERT_TRUE(eventually([&] { return sent > more_than; }));
    for (std::size_t last = 0; last != sent;) {
      last = sent;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  std::size_t resident_pages() const {
    std::size_t all = 0, resident = 0;
    std::ifstream("/proc/" + std::to_string(proxy_pid()) + "/statm") >> all >> resident;
    return resident;
  }
};

TEST_F(Service, BytesGoBothWaysAndAreCounted) {
  Upstream server(Upstream::echo);
  allow({target(server)});
  for (const Protocol protocol : {Protocol::connect, Protocol::socks}) {
    Wire wire = connect();
    ASSERT_EQ(ask(wire, protocol, "127.0.0.1", server.port()), "allowed");
    wire.send("hello");
    EXPECT_EQ(wire.read(5), "hello");
    wire.end();
    EXPECT_EQ(wire.read_all(), "");
    const Report opened = report_where([](const Report& each) { return each.kind == Report::Kind::opened; });
    EXPECT_EQ(opened.protocol, protocol);
    EXPECT_EQ(opened.rule, "net.allow " + target(server));
    const Report closed = report_where([](const Report& each) { return each.kind == Report::Kind::closed; });
    EXPECT_EQ(closed.number, opened.number);
    EXPECT_EQ(closed.sent, 5U);
    EXPECT_EQ(closed.received, 5U);
  }
}

TEST_F(Service, MegabytesArriveWholeInBothDirections) {
  const std::string block(1 << 20, 'b');
  constexpr std::size_t kBlocks = 24;
  Upstream source([&](Wire& wire) {
    for (std::size_t i = 0; i < kBlocks; ++i) wire.send(block);
    wire.end();
    wire.read_all();
  });
  std::atomic<std::size_t> sunk = 0;
  Upstream sink([&](Wire& wire) {
    sunk = wire.read_all().size();
    wire.send("done");
    wire.end();
  });
  allow({target(source), target(sink)});
  Wire down = connect();
  ASSERT_EQ(ask(down, Protocol::connect, "127.0.0.1", source.port()), "allowed");
  EXPECT_EQ(down.read_all().size(), kBlocks * block.size());
  Wire up = connect();
  ASSERT_EQ(ask(up, Protocol::socks, "127.0.0.1", sink.port()), "allowed");
  for (std::size_t i = 0; i < kBlocks; ++i) ASSERT_TRUE(up.send(block));
  up.end();
  EXPECT_EQ(up.read_all(), "done") << "a half-closed tunnel still delivers";
  EXPECT_EQ(sunk, kBlocks * block.size());
}

TEST_F(Service, WhatWaitsForASlowReaderComesInOrderAndIsCountedOnce) {
  std::string all;
  for (int i = 0; all.size() < 24U << 20; ++i) all += std::to_string(i) + "\n";
  std::atomic<std::size_t> sent = 0;
  Upstream source([&](Wire& wire) {
    for (std::string_view left = all; !left.empty(); left.remove_prefix(std::min<std::size_t>(left.size(), 10'000))) {
      if (!wire.send(left.substr(0, 10'000))) return;
      sent += 10'000;
    }
    wire.end();
    wire.read_all();
  });
  allow({target(source)});
  Wire wire = connect();
  ASSERT_EQ(ask(wire, Protocol::connect, "127.0.0.1", source.port()), "allowed");
  std::string got;
  // As long as it does not read, all buffers fill; then it reads a bit more than fits anywhere at once.
  while (got.size() < 16U << 20) {
    wait_until_stuck(sent, got.size());
    got += wire.read(3U << 20);
  }
  got += wire.read_all();
  wire.end();
  EXPECT_TRUE(got == all) << got.size() << " of " << all.size();
  const Report closed = report_where([](const Report& each) { return each.kind == Report::Kind::closed; });
  EXPECT_EQ(closed.received, all.size());
}

TEST_F(Service, WhatOnlyWaitedIsNotCountedAsPassed) {
  std::atomic<std::size_t> sent = 0;
  Upstream source([&](Wire& wire) {
    while (wire.send(std::string(10'000, 'x'))) sent += 10'000;
  });
  allow({target(source)});
  Wire wire = connect();
  ASSERT_EQ(ask(wire, Protocol::connect, "127.0.0.1", source.port()), "allowed");
  wait_until_stuck(sent);
  update(policy_of({}));
  EXPECT_EQ(report_where([](const Report& each) { return each.kind == Report::Kind::closed; }).received,
            wire.read_all().size());
}

TEST_F(Service, ALimitOfBytesIsUsedToItsLastByte) {
  Upstream source([](Wire& wire) {
    while (wire.send(std::string(10'000, 'x'))) {
    }
  });
  policy::NetLimits limits;
  limits.bytes = 1'234'567;
  allow({target(source)}, {}, limits);
  Wire wire = connect();
  ASSERT_EQ(ask(wire, Protocol::connect, "127.0.0.1", source.port()), "allowed");
  EXPECT_EQ(wire.read_all().size(), limits.bytes);
  const Report closed = report_where([](const Report& each) { return each.kind == Report::Kind::closed; });
  EXPECT_EQ(closed.rule, "net.limits.bytes");
  EXPECT_EQ(closed.received, limits.bytes);
}

// A connection and its other end, with little room for what is not read.
std::pair<UniqueFd, UniqueFd> narrow_pair() {
  const int small = 8U << 10;
  std::uint16_t port = 0;
  const UniqueFd listener = listen_on("127.0.0.1", port);
  ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  UniqueFd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::setsockopt(one.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(one.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return {std::move(one), UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

// Told once per block that was seen, a tunnel to one who reads slowly would look idle while it is not.
TEST(Relay, TellsOfEachPieceOnceItHasMoved) {
  ipc::Loop loop(Spinner::Mode::never);
  auto [source, from_end] = narrow_pair();
  auto [to_end, reader] = narrow_pair();
  const int large = 1U << 20;
  ::setsockopt(from_end.get(), SOL_SOCKET, SO_RCVBUF, &large, sizeof large);
  auto from = ipc::Watch::open(loop, std::move(from_end));
  auto to = ipc::Watch::open(loop, std::move(to_end));
  ASSERT_TRUE(from && to);
  constexpr std::size_t kAll = 2U << 20;
  std::thread sends([fd = source.get()] {
    const std::string all(kAll, 'x');
    for (std::size_t done = 0; done < kAll;) {
      done += static_cast<std::size_t>(::send(fd, all.data() + done, all.size() - done, MSG_NOSIGNAL));
    }
    ::shutdown(fd, SHUT_WR);
  });
  Bytes block;
  block.resize(1U << 20);
  std::size_t counted = 0, read = 0, most_unread = 0;
  const Meter meter{.allow = [](std::size_t wanted) { return wanted; },
                    .count = [&](std::size_t bytes) { counted += bytes; }};
  const auto run = [&]() -> Fire {
    const bool is_whole = co_await relay(**from, **to, block, meter);
    EXPECT_TRUE(is_whole);
    loop.stop();
  };
  const std::function<void()> read_some = [&, fd = reader.get()] {
    most_unread = std::max(most_unread, counted - read);
    std::array<char, 32U << 10> piece{};
    const ssize_t count = ::recv(fd, piece.data(), piece.size(), MSG_DONTWAIT);
    if (count > 0) read += static_cast<std::size_t>(count);
    loop.after(Millis(0), read_some);
  };
  run();
  loop.after(Millis(50), read_some);
  loop.run();
  sends.join();
  EXPECT_EQ(counted, kAll);
  EXPECT_LE(most_unread, 64U << 10);
}

TEST_F(Service, AnUrgentByteIsLeftOutAndNothingElse) {
  Upstream server(Upstream::echo);
  allow({target(server)});
  Wire wire = connect();
  ASSERT_EQ(ask(wire, Protocol::connect, "127.0.0.1", server.port()), "allowed");
  wire.send("ab");
  ASSERT_EQ(::send(wire.fd(), "x", 1, MSG_OOB), 1);
  wire.send("cd");
  EXPECT_EQ(wire.read(4), "abcd");
  ASSERT_EQ(::send(wire.fd(), "y", 1, MSG_OOB), 1);
  wire.end();
  EXPECT_EQ(wire.read_all(), "");
}

TEST_F(Service, TunnelsThatWaitHoldNoMemoryOfTheProxy) {
  const std::string block(1 << 20, 'b');
  std::atomic<std::size_t> sent = 0;
  Upstream source([&](Wire& wire) {
    while (wire.send(block)) sent += block.size();
  });
  allow({target(source)});
  std::vector<Wire> stalled;
  const auto stall = [&] {
    stalled.push_back(connect());
    ASSERT_EQ(ask(stalled.back(), Protocol::connect, "127.0.0.1", source.port()), "allowed");
  };
  // The first one brings what all share.
  stall();
  wait_until_stuck(sent);
  const std::size_t before = resident_pages(), of_the_first = sent;
  for (int i = 1; i < 48; ++i) stall();
  wait_until_stuck(sent, of_the_first);
  EXPECT_LT(resident_pages(), before + (kIsSanitized ? 6000U : 2000U));
}

TEST_F(Service, AHalfOpenTunnelEndsWhenItIsIdle) {
  policy::NetLimits limits;
  limits.idle = Millis(2000);
  std::atomic<bool> was_ended = false;
  Upstream server([&](Wire& wire) { was_ended = wire.read_all().empty(); });
  allow({target(server)}, {}, limits);
  for (const Protocol protocol : {Protocol::connect, Protocol::socks}) {
    Wire wire = connect();
    ASSERT_EQ(ask(wire, protocol, "127.0.0.1", server.port()), "allowed");
    EXPECT_TRUE(wire.is_ended());
  }
  EXPECT_TRUE(eventually([&] { return was_ended.load(); }));
  const Report closed = report_where([](const Report& each) { return each.kind == Report::Kind::closed; });
  EXPECT_EQ(closed.code, Code::timeout);
  EXPECT_EQ(closed.rule, "net.limits.idle");
  EXPECT_FALSE(is_violation(closed)) << "to be silent is no offence";
}

TEST_F(Service, ATunnelEndsWhenItsTimeIsUpHoweverBusy) {
  policy::NetLimits limits;
  limits.duration = Millis(2000);
  Upstream server(Upstream::echo);
  allow({target(server)}, {}, limits);
  Wire wire = connect();
  ASSERT_EQ(ask(wire, Protocol::connect, "127.0.0.1", server.port()), "allowed");
  EXPECT_TRUE(eventually([&] { return !wire.send("x") || wire.read(1).empty(); }));
  const Report closed = report_where([](const Report& each) { return each.kind == Report::Kind::closed; });
  EXPECT_EQ(closed.code, Code::quota_exceeded);
  EXPECT_EQ(closed.rule, "net.limits.duration");
  EXPECT_TRUE(is_violation(closed));
}

// A queue that is full: no connection to it is ever answered.
class Silence {
 public:
  explicit Silence(const std::string& address, std::uint16_t wanted = 0) : port(wanted) {
    listener_ = listen_on(address, port, 0);
    sockaddr_in bound{};
    socklen_t length = sizeof bound;
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &length);
    for (int i = 0; i < 8; ++i) {
      filling_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      [[maybe_unused]] const int connecting =
          ::connect(filling_.back().get(), reinterpret_cast<sockaddr*>(&bound), length);
    }
  }
  std::uint16_t port;

 private:
  UniqueFd listener_;
  std::vector<UniqueFd> filling_;
};

TEST_F(Service, AServerThatNeverAnswersIsTold) {
  policy::NetLimits limits;
  limits.idle = Millis(2000);
  Upstream silent([](Wire& wire) { wire.read_all(); });
  allow({target(silent)}, {}, limits);
  EXPECT_EQ(ask(Protocol::http, "127.0.0.1", silent.port()), "timeout");
  const Silence full("127.0.0.1");
  allow({"127.0.0.1:" + std::to_string(full.port)}, {}, limits);
  EXPECT_EQ(ask_all("127.0.0.1", full.port), "timeout");
}

TEST_F(Service, AClosedPortAndAnUnknownNameAreToldApart) {
  std::uint16_t port = 0;
  {
    const UniqueFd closed = listen_on("127.0.0.1", port);
  }
  allow({"127.0.0.1:" + std::to_string(port), "none.test:80"});
  EXPECT_EQ(ask_all("127.0.0.1", port), "unreachable");
  EXPECT_EQ(ask(Protocol::socks, "none.test", 80), "no name");
  Wire wire = connect();
  wire.send("CONNECT none.test:80 HTTP/1.1\r\n\r\n");
  EXPECT_NE(wire.read_all().find("there is no such host"), std::string::npos);
  const Report report = report_where([](const Report& each) { return each.host == "none.test"; });
  EXPECT_EQ(report.code, Code::not_found);
  EXPECT_FALSE(is_violation(report));
}

TEST_F(Service, TheNextAddressIsTriedWhenOneDoesNotAnswer) {
  Upstream server(Upstream::hello, "127.0.0.1");
  const std::string port = std::to_string(server.port());
  name("two.test", "127.0.0.8 127.0.0.1");
  allow({"two.test:" + port, "127.0.0.8:" + port, "127.0.0.1:" + port});
  EXPECT_EQ(ask_all("two.test", server.port()), "allowed");
}

TEST_F(Service, TheNextAddressIsTriedBesideOneThatIsSilent) {
  Upstream server(Upstream::hello, "127.0.0.1");
  const Silence silent("127.0.0.8", server.port());
  const std::string port = std::to_string(server.port());
  name("two.test", "127.0.0.8 127.0.0.1");
  allow({"two.test:" + port, "127.0.0.8:" + port, "127.0.0.1:" + port});
  EXPECT_EQ(ask_all("two.test", server.port()), "allowed");
}

TEST_F(Service, PlainHttpKeepsTheConnectionAcrossRequestsAndHosts) {
  Upstream one([](Wire& wire) {
    const std::string head = wire.read_until("\r\n\r\n");
    const std::string body = head.find("Content-Length: 4") != std::string::npos ? wire.read(4) : "";
    wire.send("HTTP/1.1 200 OK\r\nX-Head: " + std::to_string(head.find("Proxy-") == std::string::npos) +
              "\r\nContent-Length: " + std::to_string(body.size() + 3) + "\r\n\r\none" + body);
  });
  Upstream two([](Wire& wire) {
    wire.read_until("\r\n\r\n");
    wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n");
  });
  allow({target(one), target(two)});
  Wire wire = connect();
  wire.send("POST http://" + target(one) + "/p?secret=1 HTTP/1.1\r\nHost: " + target(one) +
            "\r\nProxy-Connection: keep-alive\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_NE(wire.read_until("\r\n\r\n").find("X-Head: 1"), std::string::npos);
  EXPECT_EQ(wire.read(7), "onebody");
  // Two at once: the second waits its turn.
  const std::string get = "GET http://" + target(two) + "/ HTTP/1.1\r\nHost: " + target(two) + "\r\n\r\n";
  wire.send(get + get);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(wire.read_until("\r\n\r\n").find("keep-alive"), std::string::npos);
    EXPECT_EQ(wire.read_until("0\r\n\r\n"), "3\r\ntwo\r\n0\r\n\r\n");
  }
  wire.send("GET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n");
  const std::string refused = wire.read_all();
  EXPECT_NE(refused.find("403 Forbidden"), std::string::npos) << "each request is decided anew";
  EXPECT_NE(refused.find("--allow-net 127.0.0.1:1"), std::string::npos) << refused;
  // What was asked for there is nobody's business.
  const Report report = report_where([](const Report& each) { return each.kind == Report::Kind::opened; });
  EXPECT_EQ(report.host, "127.0.0.1");
  EXPECT_EQ((report.rule + report.reason).find("secret"), std::string::npos);
}

TEST_F(Service, AnAnswerWithoutALengthEndsTheConnection) {
  Upstream server([](Wire& wire) {
    wire.read_until("\r\n\r\n");
    wire.send("HTTP/1.0 200 OK\r\n\r\nuntil the end");
    wire.end();
  });
  allow({target(server)});
  Wire wire = connect();
  wire.send("GET http://" + target(server) + "/ HTTP/1.1\r\n\r\n");
  EXPECT_NE(wire.read_until("\r\n\r\n").find("Connection: close"), std::string::npos);
  EXPECT_EQ(wire.read_all(), "until the end");
}

TEST_F(Service, LimitsOfBytesRequestsAndTunnelsHold) {
  Upstream server(Upstream::echo);
  policy::NetLimits limits;
  limits.requests = 3;
  limits.tunnels = 2;
  allow({target(server)}, {}, limits);
  Wire one = connect(), two = connect();
  EXPECT_EQ(ask(one, Protocol::connect, "127.0.0.1", server.port()), "allowed");
  EXPECT_EQ(ask(two, Protocol::socks, "127.0.0.1", server.port()), "allowed");
  EXPECT_EQ(ask(Protocol::connect, "127.0.0.1", server.port()), "busy");
  one.end();
  EXPECT_EQ(one.read_all(), "");
  Wire three = connect();
  EXPECT_TRUE(eventually([&] {
    three = connect();
    return ask(three, Protocol::connect, "127.0.0.1", server.port()) == "allowed";
  }));
  EXPECT_EQ(ask(Protocol::connect, "127.0.0.1", server.port()), "quota");
  EXPECT_EQ(ask(Protocol::http, "127.0.0.1", server.port()), "quota");
  EXPECT_EQ(ask(Protocol::socks, "127.0.0.1", server.port()), "refused");

  policy::NetLimits few;
  few.bytes = 1000;
  allow({target(server)}, {}, few);
  Wire wire = connect();
  ASSERT_EQ(ask(wire, Protocol::connect, "127.0.0.1", server.port()), "allowed");
  wire.send(std::string(2000, 'x'));
  EXPECT_TRUE(wire.is_ended());
  const Report closed = report_where(
      [](const Report& each) { return each.kind == Report::Kind::closed && each.rule == "net.limits.bytes"; });
  EXPECT_EQ(closed.code, Code::quota_exceeded);
  EXPECT_NE(closed.reason.find("1000 bytes"), std::string::npos) << closed.reason;
  EXPECT_EQ(ask(Protocol::connect, "127.0.0.1", server.port()), "quota");
}

TEST_F(Service, AnotherPolicyHoldsAtOnceAlsoForOpenTunnels) {
  Upstream kept(Upstream::echo), cut(Upstream::echo);
  allow({target(kept), target(cut)});
  Wire stays = connect(), goes = connect();
  ASSERT_EQ(ask(stays, Protocol::connect, "127.0.0.1", kept.port()), "allowed");
  ASSERT_EQ(ask(goes, Protocol::connect, "127.0.0.1", cut.port()), "allowed");
  update(policy_of({target(kept)}));
  EXPECT_TRUE(goes.is_ended());
  const Report closed = report_where([](const Report& each) { return each.kind == Report::Kind::closed; });
  EXPECT_EQ(closed.code, Code::policy_denied) << "the record says why it ended";
  stays.send("on");
  EXPECT_EQ(stays.read(2), "on");
  EXPECT_EQ(ask_all("127.0.0.1", cut.port()), "refused");
  policy::NetPolicy faulty = policy_of({target(kept)});
  faulty.is_faulty = true;
  update(faulty);
  EXPECT_TRUE(stays.is_ended());
  Wire wire = connect();
  wire.send("CONNECT " + target(kept) + " HTTP/1.1\r\n\r\n");
  EXPECT_NE(wire.read_all().find("has a fault"), std::string::npos);
  EXPECT_EQ(ask(Protocol::socks, "127.0.0.1", kept.port()), "refused");
}

TEST_F(Service, AnotherProxyServesOnWithTheSameListener) {
  Upstream server(Upstream::echo);
  allow({target(server)});
  Wire wire = connect();
  ASSERT_EQ(ask(wire, Protocol::connect, "127.0.0.1", server.port()), "allowed");
  restart_proxy();
  EXPECT_TRUE(wire.is_ended());
  EXPECT_EQ(ask(Protocol::connect, "127.0.0.1", server.port()), "allowed");
}

}  // namespace
}  // namespace sallyport::egress

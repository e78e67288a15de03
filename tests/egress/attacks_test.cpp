// What a container must not get by any spelling, in any of the three protocols.
#include <sys/socket.h>
#include <unistd.h>

#include "egress/fixture.h"

namespace sallyport::egress {
namespace {

class Attack : public Egress {
 protected:
  Upstream server_{Upstream::hello};
  std::string port() const { return std::to_string(server_.port()); }
  std::string local() const { return "127.0.0.1:" + port(); }
};

TEST_F(Attack, NamesThatNoRuleNamesAreRefused) {
  name("other.test", "127.0.0.1");
  allow({"web.test:" + port(), local()});
  EXPECT_EQ(ask_all("other.test", server_.port()), "refused");
  EXPECT_EQ(server_.connections(), 0);
}

TEST_F(Attack, ALiteralThatNoRuleNamesIsRefused) {
  allow({"web.test:" + port()});
  EXPECT_EQ(ask_all("127.0.0.1", server_.port()), "refused");
  EXPECT_EQ(ask_all("8.8.8.8", 443), "refused");
  EXPECT_EQ(ask_all("[2606:4700::1]", 443), "refused");
}

TEST_F(Attack, RebindingToAPrivateAddressIsRefusedEvenAfterAGoodAnswer) {
  name("web.test", "127.0.0.1");
  allow({"web.test:" + port(), local()});
  EXPECT_EQ(ask_all("web.test", server_.port()), "allowed");
  for (const char* address : {"127.0.0.2", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "169.254.169.254",
                              "0.0.0.0", "224.0.0.1", "::1", "::", "fe80::1", "fd00::1", "::ffff:127.0.0.1",
                              "64:ff9b::7f00:1", "2002:7f00:1::1", "2001::1", "ff02::1"}) {
    name("web.test", address);
    EXPECT_EQ(ask_all("web.test", server_.port()), "refused") << address;
  }
}

TEST_F(Attack, OneForbiddenAddressBesideAnAllowedOneIsNeverDialled) {
  Upstream forbidden(Upstream::hello, "127.0.0.9", server_.port());
  name("web.test", "127.0.0.9 127.0.0.1");
  allow({"web.test:" + port(), local()});
  EXPECT_EQ(ask_all("web.test", server_.port()), "allowed");
  EXPECT_EQ(forbidden.connections(), 0);
}

TEST_F(Attack, OddSpellingsOfAnAddressAreThatAddress) {
  allow({"web.test:" + port()});
  for (const char* spelling : {"2130706433", "017700000001", "0x7f000001", "0x7f.0.0.1", "127.1", "127.0.1",
                               "0177.0.0.1", "0x7F.1", "127.0.0.1."}) {
    EXPECT_EQ(ask_all(spelling, server_.port()), "refused") << spelling;
  }
  allow({local()});
  EXPECT_EQ(ask_all("2130706433", server_.port()), "allowed") << "the same address, and the same rule";
}

TEST_F(Attack, AMappedAddressIsNotTheAddressInsideIt) {
  allow({local()});
  EXPECT_EQ(ask_all("[::ffff:127.0.0.1]", server_.port()), "refused");
  EXPECT_EQ(ask_all("[::ffff:7f00:1]", server_.port()), "refused");
}

TEST_F(Attack, ATrailingDotChangesNothing) {
  name("web.test", "127.0.0.1");
  name("bad.test", "127.0.0.1");
  allow({"web.test:" + port(), "bad.test:" + port(), local()}, {"bad.test"});
  EXPECT_EQ(ask_all("web.test.", server_.port()), "allowed");
  EXPECT_EQ(ask_all("bad.test.", server_.port()), "refused");
  EXPECT_EQ(ask_all("BAD.Test", server_.port()), "refused");
  EXPECT_EQ(ask_all("web.test..", server_.port()), "refused");
}

TEST_F(Attack, OtherAlphabetsMeanWhatTheyMean) {
  name("bad.test", "127.0.0.1");
  name("xn--bcher-kva.test", "127.0.0.1");
  allow({"bad.test:" + port(), "xn--bcher-kva.test:" + port(), local()}, {"bad.test"});
  EXPECT_EQ(ask(Protocol::socks,
                "b\xc3\xbc"
                "cher.test",
                server_.port()),
            "allowed");
  EXPECT_EQ(ask(Protocol::socks,
                "\xef\xbd\x82"
                "ad.test",
                server_.port()),
            "refused")
      << "a full-width b";
  EXPECT_EQ(ask(Protocol::socks, "bad\xe3\x80\x82test", server_.port()), "refused") << "an ideographic full stop";
  allow({"web.test:" + port()});
  EXPECT_EQ(ask(Protocol::socks, "\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1", server_.port()), "refused")
      << "full-width digits";
  // HTTP's targets are ASCII.
  EXPECT_EQ(ask(Protocol::connect,
                "b\xc3\xbc"
                "cher.test",
                server_.port()),
            "malformed");
  EXPECT_EQ(ask(Protocol::http,
                "b\xc3\xbc"
                "cher.test",
                server_.port()),
            "malformed");
}

TEST_F(Attack, UserInformationIsRefused) {
  name("web.test", "127.0.0.1");
  allow({"web.test:" + port(), local()});
  EXPECT_EQ(ask(Protocol::connect, "web.test@evil.test", server_.port()), "malformed");
  EXPECT_EQ(ask(Protocol::http, "user:word@web.test", server_.port()), "malformed");
  EXPECT_EQ(ask(Protocol::socks, "evil@web.test", server_.port()), "refused");
}

TEST_F(Attack, MetadataAddressesAreRefused) {
  for (const char* address :
       {"169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "169.254.170.2"}) {
    name("meta.test", address);
    allow({"meta.test:80"});
    EXPECT_EQ(ask_all("meta.test", 80), "refused") << address;
    const std::string literal =
        std::string(address).find(':') == std::string::npos ? address : "[" + std::string(address) + "]";
    EXPECT_EQ(ask_all(literal, 80), "refused") << address;
  }
}

TEST_F(Attack, TheProxysOwnPortIsRefused) {
  name("localhost", "127.0.0.1");
  allow({"web.test:" + port(), "localhost:3128"});
  EXPECT_EQ(ask_all("127.0.0.1", 3128), "refused");
  EXPECT_EQ(ask_all("localhost", 3128), "refused");
}

TEST_F(Attack, AnotherPortOfAnAllowedHostIsRefused) {
  name("web.test", "127.0.0.1");
  allow({"web.test:1", local()});
  EXPECT_EQ(ask_all("web.test", server_.port()), "refused");
}

TEST_F(Attack, AWildcardIsOneLabelOrMoreAndNotTheNameItself) {
  name("a.web.test", "127.0.0.1");
  name("b.a.web.test", "127.0.0.1");
  name("web.test", "127.0.0.1");
  name("evilweb.test", "127.0.0.1");
  allow({"*.web.test:" + port(), local()}, {"b.a.web.test"});
  EXPECT_EQ(ask_all("a.web.test", server_.port()), "allowed");
  EXPECT_EQ(ask_all("b.a.web.test", server_.port()), "refused") << "deny beats allow";
  EXPECT_EQ(ask_all("web.test", server_.port()), "refused");
  EXPECT_EQ(ask_all("evilweb.test", server_.port()), "refused");
}

TEST_F(Attack, RequestsThatCouldBeReadInTwoWaysAreRefusedAndNeverReachTheServer) {
  name("web.test", "127.0.0.1");
  allow({"web.test:" + port(), local()});
  const std::string target = "web.test:" + port(), get = "GET http://" + target + "/ HTTP/1.1\r\n";
  const std::string host = "Host: " + target + "\r\n";
  const std::string requests[] = {
      get + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
      get + host + "Content-Length: 4\r\nContent-Length: 4\r\n\r\n",
      get + host + "Content-Length: 4, 5\r\n\r\n",
      get + host + "Content-Length: +4\r\n\r\n",
      get + host + "Transfer-Encoding: chunked, identity\r\n\r\n",
      get + host + "Transfer-Encoding: xchunked\r\n\r\n",
      get + host + "Transfer-Encoding : chunked\r\n\r\n",
      get + host + " Transfer-Encoding: chunked\r\n\r\n",
      get + host + "X: a\rTransfer-Encoding: chunked\r\n\r\n",
      get + host + "X: a\nTransfer-Encoding: chunked\r\n\r\n",
      get + host + std::string("X: a\0b\r\n\r\n", 10),
      get + host + host + "\r\n",
      get + "Host: other.test\r\n\r\n",
      get + "Host: web.test\r\n\r\n",  // the port is part of it
      "GET / HTTP/1.1\r\n" + host + "\r\n",
      "GET https://" + target + "/ HTTP/1.1\r\n" + host + "\r\n",
      "GET http://" + target + "/ HTTP/2.0\r\n" + host + "\r\n",
      "GET  http://" + target + "/ HTTP/1.1\r\n" + host + "\r\n",
      "CONNECT " + target + " HTTP/1.1\r\n" + host + host + "\r\n",
      "CONNECT " + target + " HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
      "CONNECT web.test HTTP/1.1\r\n\r\n",
      "CONNECT http://" + target + " HTTP/1.1\r\n\r\n",
      "G@T http://" + target + "/ HTTP/1.1\r\n" + host + "\r\n",
      "\r\n\r\n",
  };
  for (const std::string& request : requests) {
    Wire wire = connect();
    wire.send(request);
    EXPECT_EQ(wire.read_all().substr(0, 12), "HTTP/1.1 400") << request;
  }
  EXPECT_EQ(server_.connections(), 0);
}

TEST_F(Attack, AnUpgradeOfAPlainRequestNeverReachesTheServer) {
  Upstream server(Upstream::hello);
  allow({"127.0.0.1:" + std::to_string(server.port())});
  const std::string target = "127.0.0.1:" + std::to_string(server.port());
  for (const char* upgrade : {"websocket", "WebSocket", "h2c, websocket", "websocket/13"}) {
    Wire wire = connect();
    wire.send("GET http://" + target + "/ HTTP/1.1\r\nHost: " + target +
              "\r\nConnection: keep-alive, Upgrade\r\nUpgrade: " + upgrade + "\r\n\r\n");
    const std::string answer = wire.read_all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 501 ")) << upgrade << answer;
    EXPECT_NE(answer.find("CONNECT"), std::string::npos) << "it says what to do";
  }
  EXPECT_EQ(server.connections(), 0);
  // An offer that a server may pass over is left out, and the request goes on.
  Wire wire = connect();
  wire.send("GET http://" + target + "/ HTTP/1.1\r\nHost: " + target +
            "\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n\r\n");
  EXPECT_NE(wire.read_all().find("hello"), std::string::npos);
}

TEST_F(Attack, AMalformedChunkEndsTheRequest) {
  std::mutex mutex;
  std::string seen;
  Upstream server([&](Wire& wire) {
    const std::string all = wire.read_all();
    const std::lock_guard lock(mutex);
    seen = all;
  });
  name("web.test", "127.0.0.1");
  const std::string target = "web.test:" + std::to_string(server.port());
  allow({target, "127.0.0.1:" + std::to_string(server.port())});
  for (const char* chunk : {"4;ext=1\r\nabcd\r\n0\r\n\r\n", "4\nabcd\n0\n\n", "-4\r\n", "4\r\nabcdX\r\n",
                            "0\r\nTrailer: x\r\n\r\n", "fffffffff\r\n"}) {
    Wire wire = connect();
    wire.send("POST http://" + target + "/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(chunk) +
              "GET http://smuggled/ HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(wire.is_ended()) << chunk;
    const std::lock_guard lock(mutex);
    EXPECT_EQ(seen.find("smuggled"), std::string::npos) << chunk;
  }
}

TEST_F(Attack, OversizedHeadsAreRefusedBeforeTheyAreKept) {
  allow({local()});
  Wire large = connect();
  large.send("GET http://" + local() + "/ HTTP/1.1\r\nX: " + std::string(64 << 10, 'a'));
  EXPECT_EQ(large.read_all().substr(0, 12), "HTTP/1.1 431");
  Wire many = connect();
  std::string headers;
  for (int i = 0; i < 200; ++i) headers += "A: b\r\n";
  many.send("GET http://" + local() + "/ HTTP/1.1\r\n" + headers + "\r\n");
  EXPECT_EQ(many.read_all().substr(0, 12), "HTTP/1.1 431");
  EXPECT_EQ(server_.connections(), 0);
}

TEST_F(Attack, SlowLorisIsCutOff) {
  policy::NetLimits limits;
  limits.idle = Millis(1000);  // less than it takes to send all that the last of them announces
  allow({local()}, {}, limits);
  const std::string starts[] = {"CONNECT " + local() + " HTTP/1.1\r\n", "GET http://" + local() + "/ HTTP/1.1\r\n",
                                std::string("\x05\x01\x00\x05\x01\x00\x03\xff", 8)};
  for (const std::string& start : starts) {
    Wire wire = connect();
    wire.send(start);
    // A byte now and then does not buy time.
    EXPECT_TRUE(eventually([&] {
      wire.send("a");
      char byte = 0;
      const ssize_t count = ::recv(wire.fd(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
      if (count == 0) return true;
      return count > 0 ? wire.is_ended() : errno == ECONNRESET;
    })) << start;
  }
  EXPECT_EQ(server_.connections(), 0);
}

TEST_F(Attack, SocksRefusesOtherCommandsAddressTypesAndVersions) {
  allow({local()});
  const auto request = [&](const std::string& bytes) {
    Wire wire = connect();
    wire.send(std::string("\x05\x01\x00", 3) + bytes);
    wire.read(2);
    const std::string reply = wire.read(2);
    return reply.size() == 2 ? static_cast<int>(reply[1]) : -1;
  };
  using namespace std::string_literals;
  EXPECT_EQ(request("\x05\x01\x00\x02\x7f\x00\x00\x01\x00\x50"s), 8);
  EXPECT_EQ(request("\x05\x01\x00\x00\x7f\x00\x00\x01\x00\x50"s), 8);
  EXPECT_EQ(request("\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50"s), 7) << "bind";
  EXPECT_EQ(request("\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50"s), 7) << "udp";
  EXPECT_EQ(request("\x05\x01\x00\x03\x00\x00\x50"s), 1) << "an empty name";
  EXPECT_EQ(request("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x00"s), 1) << "port 0";
  EXPECT_EQ(request("\x05\x01\x01\x01\x7f\x00\x00\x01\x00\x50"s), 1) << "the reserved byte";
  Wire wire = connect();
  wire.send("\x05\x01\x02");  // only with a password
  EXPECT_EQ(wire.read(2), "\x05\xff");
  Wire old = connect();
  old.send("\x04\x01\x00\x50\x7f\x00\x00\x01\x00"s);  // SOCKS 4 is neither
  old.end();
  EXPECT_TRUE(old.is_ended());
  EXPECT_EQ(server_.connections(), 0);
}

// ---- TLS ----

class Tls : public Egress {
 protected:
  // Which loopback address it is does not matter; that the port is 443 does. One per process: tests run side by side.
  const std::string address_ =
      "127.77." + std::to_string(::getpid() / 250 % 250) + "." + std::to_string(1 + ::getpid() % 250);
  Upstream server_{Upstream::echo, address_, 443};
  Upstream other_{Upstream::echo, address_};
  void SetUp() override {
    name("tls.test", address_);
    allow({"tls.test:443", address_ + ":443", "tls.test:" + std::to_string(other_.port()),
           address_ + ":" + std::to_string(other_.port())});
  }
  // "passed" if the greeting reached the server; else what the client got.
  std::string greet(Protocol protocol, const std::string& host, std::uint16_t port, const std::string& greeting) {
    Wire wire = connect();
    if (const std::string asked = ask(wire, protocol, host, port); asked != "allowed") return asked;
    wire.send(greeting);
    wire.end();
    const std::string got = wire.read_all();
    if (got == greeting) return "passed";
    return got.starts_with("\x15\x03") ? "alert" : "'" + got + "'";
  }
  static constexpr Protocol kTunnels[] = {Protocol::connect, Protocol::socks};
};

TEST_F(Tls, TheServerNameMustBeTheHosts) {
  for (const Protocol protocol : kTunnels) {
    for (const std::uint16_t port : {std::uint16_t{443}, other_.port()}) {
      EXPECT_EQ(greet(protocol, "tls.test", port, client_hello("tls.test")), "passed");
      EXPECT_EQ(greet(protocol, "tls.test", port, client_hello("TLS.test")), "passed");
      EXPECT_EQ(greet(protocol, "tls.test", port, client_hello("evil.test")), "alert");
      EXPECT_EQ(greet(protocol, "tls.test", port, client_hello("")), "alert");
    }
  }
  const Report report = report_where([](const Report& each) { return each.rule == "tls name"; });
  EXPECT_NE(report.reason.find("evil.test"), std::string::npos);
  EXPECT_TRUE(is_violation(report));
}

TEST_F(Tls, AGreetingInPiecesOfTcpPassesAndInPiecesOfTlsDoesNot) {
  const std::string hello = client_hello("tls.test");
  for (const Protocol protocol : kTunnels) {
    Wire wire = connect();
    ASSERT_EQ(ask(wire, protocol, "tls.test", 443), "allowed");
    for (const char byte : hello) wire.send(std::string(1, byte));
    EXPECT_EQ(wire.read(hello.size()), hello);
    // The same handshake in two records.
    const std::string handshake = hello.substr(5), first = handshake.substr(0, 20), second = handshake.substr(20);
    const auto record = [](const std::string& part) {
      return std::string("\x16\x03\x01", 3) + static_cast<char>(part.size() >> 8) +
             static_cast<char>(part.size() & 0xff) + part;
    };
    EXPECT_EQ(greet(protocol, "tls.test", 443, record(first) + record(second)), "alert");
    EXPECT_EQ(greet(protocol, "tls.test", 443, hello.substr(0, hello.size() / 2)), "alert");
  }
}

TEST_F(Tls, On443NothingElsePassesAndElsewhereItDoes) {
  for (const Protocol protocol : kTunnels) {
    EXPECT_EQ(greet(protocol, "tls.test", 443, "GET / HTTP/1.1\r\n\r\n"), "alert");
    EXPECT_EQ(greet(protocol, "tls.test", 443, "SSH-2.0-client\r\n"), "alert");
    EXPECT_EQ(greet(protocol, "tls.test", other_.port(), "SSH-2.0-client\r\n"), "passed");
    EXPECT_EQ(greet(protocol, address_, 443, "a literal has no name"), "passed");
  }
}

}  // namespace
}  // namespace sallyport::egress

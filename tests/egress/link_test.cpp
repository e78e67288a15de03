// The warden's end of the proxy, with the real program at the other: more orders than a socket holds.
#include "egress/link.h"

#include <unistd.h>

#include <csignal>
#include <future>

#include "egress/fixture.h"

namespace sallyport::egress {
namespace {

class Orders : public Egress {
 protected:
  // Together more than the largest buffer that the link asks for, 8 MiB as the kernel counts.
  static constexpr std::size_t kContainers = 150;

  template <typename F>
  std::invoke_result_t<F> on_loop(F work) {
    std::packaged_task<std::invoke_result_t<F>()> task(std::move(work));
    auto done = task.get_future();
    loop_.post([&task] { task(); });
    return done.get();
  }

  Orders() {
    on_loop([this] { link_.emplace(loop_, log_, "", [](const Report&) {}); });
  }
  ~Orders() override {
    on_loop([this] {
      link_->close();
      loop_.stop();
    });
    thread_.join();
    link_.reset();
    loop_.settle();
  }

  pid_t pid() {
    return on_loop([this] { return link_->pid(); });
  }
  policy::NetPolicy large(const std::string& first) const {
    std::vector<std::string> rules = {first};
    for (int i = 0; i < 1000; ++i) rules.push_back(std::string(60, 'a') + ".h" + std::to_string(i) + ".test:443");
    return policy_of(rules);
  }
  std::string server_rule() const { return "127.0.0.1:" + std::to_string(server_.port()); }
  void serve(std::size_t count) {
    const policy::NetPolicy policy = large(server_rule());
    while (ports_.size() < count) {
      std::uint16_t port = 0;
      UniqueFd listener = listen_on("127.0.0.1", port);
      const std::string name = "c" + std::to_string(ports_.size());
      const Status served = on_loop([&] { return link_->serve(name, std::move(listener), policy); });
      ASSERT_TRUE(served) << name << ": " << served.error().describe();
      ports_.push_back(port);
    }
  }
  void update_all(const policy::NetPolicy& policy) {
    on_loop([&] {
      for (std::size_t i = 0; i < ports_.size(); ++i) link_->update("c" + std::to_string(i), policy);
    });
  }
  std::string ask(Wire& wire) const { return Egress::ask(wire, Protocol::connect, "127.0.0.1", server_.port()); }
  std::string ask(std::uint16_t port) const {
    Wire wire = connect_to(port);
    return ask(wire);
  }

  Upstream server_{Upstream::echo};
  SystemClock clock_;
  Log log_{STDERR_FILENO, LogFormat::text, LogLevel::error, clock_};
  ipc::Loop loop_{Spinner::Mode::never};
  std::optional<Link> link_;
  std::vector<std::uint16_t> ports_;
  std::thread thread_{[this] { loop_.run(); }};
};

TEST_F(Orders, WaitForAProxyThatIsBusy) {
  ASSERT_NO_FATAL_FAILURE(serve(1));
  const pid_t proxy = pid();
  ASSERT_EQ(::kill(proxy, SIGSTOP), 0);
  serve(kContainers);
  ASSERT_EQ(::kill(proxy, SIGCONT), 0);
  for (const std::uint16_t port : ports_) ASSERT_EQ(ask(port), "allowed");
  EXPECT_EQ(pid(), proxy);
}

TEST_F(Orders, AllReachAProxyThatIsNew) {
  ASSERT_NO_FATAL_FAILURE(serve(kContainers));
  const pid_t proxy = pid();
  ASSERT_EQ(::kill(proxy, SIGKILL), 0);
  for (const std::uint16_t port : ports_) ASSERT_EQ(ask(port), "allowed");
  EXPECT_NE(pid(), proxy);
}

TEST_F(Orders, ManyUpdatesCutNoTunnelAndTheLastOneHolds) {
  ASSERT_NO_FATAL_FAILURE(serve(kContainers));
  for (const std::uint16_t port : ports_) ASSERT_EQ(ask(port), "allowed");
  Wire tunnel = connect_to(ports_.back());
  ASSERT_EQ(ask(tunnel), "allowed");
  const pid_t proxy = pid();
  ASSERT_EQ(::kill(proxy, SIGSTOP), 0);
  update_all(large("another.test:443"));
  update_all(large(server_rule()));
  on_loop([&] {
    link_->update("c1", large("another.test:443"));
    link_->stop("c2");
  });
  ASSERT_EQ(::kill(proxy, SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return ask(ports_[1]) == "refused"; }));
  EXPECT_TRUE(eventually([&] { return ask(ports_.front()) == "allowed"; }));
  ASSERT_TRUE(tunnel.send("x"));
  EXPECT_EQ(tunnel.read(1), "x") << "cut by an update that a newer one had overtaken";
  EXPECT_EQ(pid(), proxy);
}

TEST_F(Orders, AProxyThatTakesNoneIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(serve(kContainers));
  for (const std::uint16_t port : ports_) ASSERT_EQ(ask(port), "allowed");
  const pid_t proxy = pid();
  ASSERT_EQ(::kill(proxy, SIGSTOP), 0);
  update_all(large("another.test:443"));
  EXPECT_TRUE(eventually([&] { return pid() != proxy; }));
  EXPECT_EQ(ask(ports_.front()), "refused");
  EXPECT_EQ(ask(ports_.back()), "refused");
}

}  // namespace
}  // namespace sallyport::egress

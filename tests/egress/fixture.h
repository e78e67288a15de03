// The real sallyport-egress, told what to serve by the test, between raw clients and servers of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "egress/protocol.h"
#include "egress/tally.h"
#include "support/daemon.h"

namespace sallyport::egress {

using sallyport::testing::eventually;

// A TCP connection without manners. Every wait ends at last.
class Wire {
 public:
  explicit Wire(UniqueFd fd);
  bool send(std::string_view bytes) const;
  void end() const;                               // no more from here
  std::string read_until(std::string_view mark);  // what came, up to and with the mark; all of it at the end
  std::string read(std::size_t count);
  std::string read_all() { return read_until({}); }
  bool is_ended();  // by the other side, whatever it sends before
  int fd() const { return fd_.get(); }

 private:
  bool fill();
  UniqueFd fd_;
  std::string in_;
};

// Serves each connection on a thread of its own.
class Upstream {
 public:
  using Handler = std::function<void(Wire&)>;
  explicit Upstream(Handler handler, const std::string& address = "127.0.0.1", std::uint16_t port = 0);
  ~Upstream();
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;
  std::uint16_t port() const { return port_; }
  int connections() const { return connections_; }

  static void echo(Wire& wire);   // until the client ends; then ends too
  static void hello(Wire& wire);  // an HTTP answer, "hello"

 private:
  UniqueFd listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> connections_ = 0;
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

class Egress : public ::testing::Test {
 protected:
  Egress();
  ~Egress() override;

  void allow(std::vector<std::string> allow, std::vector<std::string> deny = {}, policy::NetLimits limits = {});
  void update(const policy::NetPolicy& policy);
  void name(const std::string& host, const std::string& addresses);  // replaces what the name meant
  void restart_proxy();
  // Another one that does this first and, without `has_hosts`, asks the machine's resolver. It serves nobody yet.
  void restart_proxy(const std::function<void()>& before_exec, bool has_hosts = true);
  void end_proxy() const;  // no more orders: it says its last words
  // Another container, with a listener of its own; its port.
  std::uint16_t serve(const std::string& container, const policy::NetPolicy& policy);

  Wire connect() const { return connect_to(port_); }
  static Wire connect_to(std::uint16_t port);
  static constexpr Protocol kAll[] = {Protocol::connect, Protocol::http, Protocol::socks};
  // How the proxy answers: "allowed", "refused", "malformed", "quota", "busy", "no name", "unreachable", "timeout", or
  // what else it said. Allowed plain HTTP is whatever the server answers with 2xx.
  static std::string ask(Wire& wire, Protocol protocol, const std::string& host, std::uint16_t port);
  std::string ask(Protocol protocol, const std::string& host, std::uint16_t port) const;
  // The same answer in all three protocols, or all three.
  std::string ask_all(const std::string& host, std::uint16_t port) const;
  std::optional<Report> next_report();  // if one is there
  std::vector<Report> last_reports();   // all until the proxy ends
  // Reports until one satisfies the claim; fails the test if none does.
  Report report_where(const std::function<bool(const Report&)>& claim);
  static policy::NetPolicy policy_of(std::vector<std::string> allow, std::vector<std::string> deny = {},
                                     policy::NetLimits limits = {});
  static std::string client_hello(const std::string& server_name);
  pid_t proxy_pid() const { return pid_; }
  const std::string& directory() const { return directory_.path(); }

 private:
  void start_proxy(const std::function<void()>& before_exec = {}, bool has_hosts = true);
  void stop_proxy();
  void order(const ToProxy& order, int fd = -1) const;
  void write_hosts() const;

  sallyport::testing::TemporaryDirectory directory_;
  std::map<std::string, std::string> names_;
  UniqueFd listener_, socket_;
  std::vector<UniqueFd> others_;
  std::uint16_t port_ = 0;
  pid_t pid_ = -1;
  policy::NetPolicy policy_;
  wire::Decoder decoder_;
};

// A listening socket on this address; the port is chosen by the kernel if 0.
UniqueFd listen_on(const std::string& address, std::uint16_t& port, int backlog = 64);

}  // namespace sallyport::egress

// One connection of a container, from its first byte to its end.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/base.h"
#include "egress/authorize.h"
#include "egress/http_body.h"
#include "egress/http_head.h"
#include "egress/proxy.h"
#include "ipc/ipc.h"

namespace sallyport::egress {

// Lives as long as its coroutines do. The first byte tells SOCKS from HTTP; everything goes through open_route(), and
// with it through authorize().
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  static void start(Proxy& proxy, std::shared_ptr<Served> served, std::unique_ptr<ipc::Watch> client);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void cancel();
  void check_time(SteadyTime now);
  // The policy changed: what it does not allow any more ends.
  void check_again();

 private:
  Connection(Proxy& proxy, std::shared_ptr<Served> served, std::unique_ptr<ipc::Watch> client);

  static Fire run(std::shared_ptr<Connection> self);
  Task<bool> serve();

  // ---- connection_http.cpp ----
  Task<bool> serve_http();
  Task<bool> serve_connect(const RequestHead& request);
  // True: the client may ask again on this connection.
  Task<bool> forward(const RequestHead& request);
  Fire send_body(std::shared_ptr<Connection> self, Framing framing);
  Task<bool> pass_response(const RequestHead& request);
  Task<bool> pass_response_body(Framing framing, std::string rest);
  void say(int status, std::string_view reason, std::string_view text);
  Task<bool> answer(int status, std::string_view reason, std::string text);
  Task<bool> answer_refusal(const Verdict& verdict, const Intent& intent);

  // ---- connection_socks.cpp ----
  Task<bool> serve_socks();

  // ---- connection.cpp ----
  // Decides, counts, reports and dials. Not allowed: the caller tells the client, in its protocol.
  Task<Verdict> open_route(Intent intent);
  Report report_of_route(Report::Kind kind) const;
  // What could not be read as a request at all, or not as one that is served.
  void report_unread(Code code, std::string rule, std::string reason, const Intent& intent);
  // Why the route will be closed before its sides have ended it; the first cause counts.
  void cut(Code code, const char* limit, std::string reason);
  void close_route();
  // Both ways until both have ended. First the client's first bytes are looked at.
  Task<bool> tunnel();
  Fire pump_back(std::shared_ptr<Connection> self);
  Task<bool> inspect_greeting();
  bool refuse_greeting(std::string reason);  // false
  // At least one more byte of the client's into in_. False at its end, or when time is up.
  Task<bool> read_more();
  // After a last answer: lets the client read it before the connection is reset by what it still sends.
  Task<bool> linger();
  // For a tunnel: no byte beyond the limit moves, and each counts once it has moved.
  Meter meter(std::uint64_t& counter);
  // For bytes that are sent in any case, or not at all: false if they are more than the limit leaves.
  bool pass(std::uint64_t& counter, std::size_t bytes);
  void count_bytes(std::uint64_t& counter, std::size_t bytes);
  std::uint64_t bytes_left() const;
  void cut_for_bytes();
  bool has_time() const { return !is_cancelled_ && !is_late_; }
  void start_clock(Millis most);

  Proxy& proxy_;
  std::shared_ptr<Served> served_;
  std::unique_ptr<ipc::Watch> client_, upstream_;
  std::string in_;  // of the client's, not yet used
  std::uint64_t number_ = 0;

  SteadyTime started_, last_activity_;
  std::optional<SteadyTime> deadline_;  // of what is being asked for now
  bool is_late_ = false, is_cancelled_ = false;

  // The route, while there is one.
  struct Route {
    Intent intent;
    policy::Host host;
    policy::Address address;
    std::string rule;
    std::uint64_t sent = 0, received = 0;
    struct Cut {
      Code code;
      std::string rule, reason;
    };
    std::optional<Cut> cut = {};
  };
  std::optional<Route> route_;
  // The second coroutine of a tunnel or a request.
  struct Side {
    ipc::OneShot<bool> ended;
  };
  std::shared_ptr<Side> side_;
};

// What a refused client is told: which rule, and the line that would allow it.
std::string describe_refusal(const Verdict& verdict, const Intent& intent);

}  // namespace sallyport::egress

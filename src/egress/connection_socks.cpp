#include <algorithm>

#include "egress/connection.h"
#include "egress/socks.h"

namespace sallyport::egress {
namespace {

constexpr std::string_view kNoAuthentication("\x05\x00", 2);
constexpr std::string_view kNoneAcceptable("\x05\xff", 2);

SocksReply reply_for(Outcome outcome) {
  switch (outcome) {
    case Outcome::allowed:
      return SocksReply::granted;
    case Outcome::refused:
    case Outcome::over_quota:
      return SocksReply::refused_by_rule;
    case Outcome::busy:
      return SocksReply::failed;
    case Outcome::no_such_name:
      return SocksReply::host_unreachable;
    case Outcome::unreachable:
      return SocksReply::connection_refused;
    case Outcome::timed_out:
      return SocksReply::timed_out;
  }
  return SocksReply::failed;
}

}  // namespace

Task<bool> Connection::serve_socks() {
  for (;;) {
    const auto greeting = parse_socks_greeting(as_bytes(in_));
    if (!greeting) co_return false;
    if (*greeting) {
      in_.erase(0, (*greeting)->bytes);
      if (!(*greeting)->offers_no_authentication) {
        const bool is_sent = co_await send_all(*client_, kNoneAcceptable);
        const bool goes_on = is_sent && co_await linger();
        co_return goes_on;
      }
      break;
    }
    if (!co_await read_more()) co_return false;
  }
  if (!co_await send_all(*client_, kNoAuthentication)) co_return false;
  for (;;) {
    const auto request = parse_socks_request(as_bytes(in_));
    if (!request) {
      report_unread(request.error().code, "socks", "the request is refused: " + request.error().message,
                    {Protocol::socks, {}, 0});
      const std::string no = socks_reply(SocksReply::failed);
      const bool is_sent = co_await send_all(*client_, no);
      const bool goes_on = is_sent && co_await linger();
      co_return goes_on;
    }
    if (!*request) {
      if (!co_await read_more()) co_return false;
      continue;
    }
    in_.erase(0, (*request)->bytes);
    SocksReply reply = (*request)->fault;
    const Intent intent{Protocol::socks, (*request)->host, (*request)->port};
    if (reply != SocksReply::granted) {
      report_unread(Code::protocol_error, "socks",
                    "only CONNECT to a name, an IPv4 or an IPv6 address is served, with a port", intent);
    } else {
      const Verdict verdict = co_await open_route(intent);
      reply = reply_for(verdict.outcome);
    }
    const std::string answer = socks_reply(reply);
    if (!co_await send_all(*client_, answer)) co_return false;
    if (reply != SocksReply::granted) {
      const bool goes_on = co_await linger();
      co_return goes_on;
    }
    const bool goes_on = co_await tunnel();
    co_return goes_on;
  }
}

}  // namespace sallyport::egress

#include <sys/socket.h>

#include <cerrno>

#include "egress/connection.h"
#include "egress/limits.h"

namespace sallyport::egress {
namespace {

// As the WebSocket protocol itself says of proxies.
constexpr std::string_view kNoWebSocket =
    "sallyport: a WebSocket needs a tunnel, for ws:// as for wss://: connect with CONNECT HOST:PORT.\n";

struct Status {
  int code;
  const char* phrase;
};

Status status_for(Outcome outcome) {
  switch (outcome) {
    case Outcome::allowed:
      return {200, "OK"};
    case Outcome::refused:
      return {403, "Forbidden"};
    case Outcome::over_quota:
      return {429, "Too Many Requests"};
    case Outcome::busy:
      return {503, "Service Unavailable"};
    case Outcome::no_such_name:
    case Outcome::unreachable:
      return {502, "Bad Gateway"};
    case Outcome::timed_out:
      return {504, "Gateway Timeout"};
  }
  return {500, "Internal Server Error"};
}

// What the request's method and the status mean for the response's end.
Framing framing_of(const ResponseHead& response, const RequestHead& request) {
  const bool is_bodiless = request.method == "HEAD" || response.status == 204 || response.status == 304;
  return is_bodiless ? Framing{} : response.framing;
}

}  // namespace

std::string describe_refusal(const Verdict& verdict, const Intent& intent) {
  const std::string host = verdict.host == policy::Host() ? escape_for_display(intent.host) : verdict.host.to_string();
  const std::string target = host + ":" + std::to_string(intent.port);
  std::string text =
      "sallyport: " + target + (verdict.outcome == Outcome::refused ? " is refused: " : ": ") + verdict.reason + ".\n";
  if (!verdict.rule.empty()) text += "rule: " + verdict.rule + "\n";
  if (!verdict.remedy.empty()) {
    text += "To allow it: sallyport run --allow-net " + verdict.remedy +
            " ... or, in the container's profile, net.allow = [\"" + verdict.remedy + "\"]\n";
  }
  return text;
}

Task<bool> Connection::serve_http() {
  for (;;) {
    auto request = parse_request_head(in_);
    if (!request) {
      const bool is_large = request.error().code == Code::payload_too_large;
      report_unread(request.error().code, "http", "the request is refused: " + request.error().message,
                    {Protocol::http, {}, 0});
      const bool goes_on =
          co_await answer(is_large ? 431 : 400, is_large ? "Request Header Fields Too Large" : "Bad Request",
                          "sallyport: " + request.error().message + ".\n");
      co_return goes_on;
    }
    if (!*request) {
      if (co_await read_more()) continue;
      if (!is_late_ || in_.empty()) co_return false;
      const bool goes_on = co_await answer(408, "Request Timeout", "sallyport: the request did not come in time.\n");
      co_return goes_on;
    }
    in_.erase(0, (*request)->bytes);
    if ((*request)->is_connect) {
      const bool goes_on = co_await serve_connect(**request);
      co_return goes_on;
    }
    if ((*request)->wants_websocket) {
      const bool goes_on = co_await answer(501, "Not Implemented", std::string(kNoWebSocket));
      co_return goes_on;
    }
    if (!co_await forward(**request)) co_return false;
    // The next request may take as long as an idle connection may, but once begun no longer than any other.
    if (in_.empty() && !co_await read_more()) co_return false;
    start_clock(kHeadTimeout);
  }
}

Task<bool> Connection::serve_connect(const RequestHead& request) {
  const Intent intent{Protocol::connect, request.host, request.port};
  const Verdict verdict = co_await open_route(intent);
  if (!verdict.is_allowed()) {
    const bool goes_on = co_await answer_refusal(verdict, intent);
    co_return goes_on;
  }
  if (!co_await send_all(*client_, "HTTP/1.1 200 Connection established\r\n\r\n")) co_return false;
  const bool goes_on = co_await tunnel();
  co_return goes_on;
}

Task<bool> Connection::forward(const RequestHead& request) {
  const Intent intent{Protocol::http, request.host, request.port};
  const Verdict verdict = co_await open_route(intent);
  if (!verdict.is_allowed()) {
    const bool goes_on = co_await answer_refusal(verdict, intent);
    co_return goes_on;
  }
  const std::string head = to_origin(request);
  const bool is_within_limits = pass(route_->sent, head.size());
  if (!is_within_limits || !co_await send_all(*upstream_, head)) co_return false;
  side_ = std::make_shared<Side>();
  const std::shared_ptr<Side> side = side_;
  send_body(shared_from_this(), request.framing);
  const bool may_stay = co_await pass_response(request);
  // A response that came before all of the request was sent ends both.
  const bool is_sent = side->ended.is_resolved();
  if (!is_sent || !may_stay) {
    upstream_->cancel();
    if (!is_sent) client_->cancel();
  }
  const bool is_body_whole = co_await side->ended;
  close_route();
  if (!may_stay && is_sent && has_time()) {
    const bool goes_on = co_await linger();
    co_return goes_on;
  }
  co_return may_stay&& is_sent&& is_body_whole&& has_time();
}

Fire Connection::send_body(std::shared_ptr<Connection> self, Framing framing) {
  const std::shared_ptr<Side> side = self->side_;
  BodyReader body(framing, BodyOf::request);
  bool is_whole = true;
  while (is_whole && !body.is_done()) {
    if (self->in_.empty() && !co_await self->read_more()) {
      is_whole = false;
      break;
    }
    const auto count = body.feed(self->in_);
    // What is malformed is not sent on: the server sees a request that breaks off.
    if (!count) {
      self->report_unread(count.error().code, "http", "the request's body is refused: " + count.error().message,
                          self->route_->intent);
      is_whole = false;
      break;
    }
    const std::string part = self->in_.substr(0, *count);
    self->in_.erase(0, *count);
    is_whole = self->pass(self->route_->sent, part.size());
    if (is_whole) is_whole = co_await send_all(*self->upstream_, part);
  }
  if (!is_whole) self->upstream_->cancel();
  side->ended.resolve(is_whole);
}

Task<bool> Connection::pass_response(const RequestHead& request) {
  std::string head;
  for (;;) {
    auto response = parse_response_head(head);
    const bool is_unusable = !response || (*response && (*response)->status == 101);
    if (is_unusable) {
      say(502, "Bad Gateway", "sallyport: the server's answer is malformed.\n");
      co_return false;
    }
    if (*response) {
      if ((*response)->status < 200) {  // on the way to the one that counts
        const std::string interim = head.substr(0, (*response)->bytes);
        if (!co_await send_all(*client_, interim)) co_return false;
        head.erase(0, (*response)->bytes);
        continue;
      }
      const Framing framing = framing_of(**response, request);
      const bool keeps_alive = request.wants_keep_alive && framing.kind != Framing::Kind::until_close;
      const std::string passed = to_client(**response, keeps_alive);
      if (!co_await send_all(*client_, passed)) co_return false;
      head.erase(0, (*response)->bytes);
      const bool is_whole = co_await pass_response_body(framing, std::move(head));
      co_return is_whole&& keeps_alive;
    }
    if (!co_await upstream_->readable()) break;
    char block[4096];
    const ssize_t count = ::recv(upstream_->fd(), block, sizeof block, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0 || !pass(route_->received, static_cast<std::size_t>(count))) break;
    head.append(block, static_cast<std::size_t>(count));
  }
  if (is_late_) {
    say(504, "Gateway Timeout", "sallyport: the server did not answer in time.\n");
  } else if (!is_cancelled_) {
    say(502, "Bad Gateway", "sallyport: the server ended the connection without an answer.\n");
  }
  co_return false;
}

// True: the body ended where it said it would.
Task<bool> Connection::pass_response_body(Framing framing, std::string rest) {
  BodyReader body(framing, BodyOf::response);
  while (!body.is_done()) {
    if (!rest.empty()) {
      const auto count = body.feed(rest);
      // Whatever a server means by it: the client gets these bytes, and nothing behind them.
      const std::size_t size = count ? *count : rest.size();
      const bool is_sent = co_await send_all(*client_, std::string_view(rest).substr(0, size));
      if (!is_sent || !count) co_return false;
      rest.clear();
      continue;
    }
    if (!co_await upstream_->readable()) co_return false;
    Bytes& block = proxy_.block();
    const ssize_t count = ::recv(upstream_->fd(), block.data(), kBodyBytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0 || !pass(route_->received, static_cast<std::size_t>(count))) co_return false;
    rest = as_text(block.view().first(static_cast<std::size_t>(count)));
  }
  co_return true;
}

// Late or not: what fits into the socket's buffer is sent. Always the last word on a connection.
void Connection::say(int status, std::string_view reason, std::string_view text) {
  std::string all = "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason) +
                    "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " + std::to_string(text.size()) +
                    "\r\nConnection: close\r\n\r\n";
  all += text;
  [[maybe_unused]] const ssize_t sent = ::send(client_->fd(), all.data(), all.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

Task<bool> Connection::answer(int status, std::string_view reason, std::string text) {
  say(status, reason, text);
  const bool goes_on = co_await linger();
  co_return goes_on;
}

Task<bool> Connection::answer_refusal(const Verdict& verdict, const Intent& intent) {
  const Status status = status_for(verdict.outcome);
  const bool goes_on = co_await answer(status.code, status.phrase, describe_refusal(verdict, intent));
  co_return goes_on;
}

}  // namespace sallyport::egress

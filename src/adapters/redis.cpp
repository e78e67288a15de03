#include "adapters/redis.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "adapters/credentials.h"
#include "platform/address.h"
#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

constexpr Millis kAnswerTimeout{5'000};
// A backend that was just found down is not asked again by each of a hundred callers.
constexpr Millis kFailFast{100};
constexpr std::uint16_t kDefaultPort = 6379;
constexpr int kMaxDepth = 4;
constexpr std::size_t kMaxLineBytes = 64U << 10;
constexpr std::size_t kKeptBytes = 1U << 20;  // of a buffer that is empty again

void set_timeouts(int fd) {
  const timeval patience{platform::kProbeTimeout.count() / 1000, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

Result<UniqueFd> connect_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Error::make(Code::invalid_params, "the socket's path is too long");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd) return Error::from_errno("cannot make a socket", errno);
  set_timeouts(fd.get());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error::from_errno("cannot connect to Redis", errno);
  }
  return fd;
}

Result<UniqueFd> connect_host(const platform::Address& address) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(address.port != 0 ? address.port : kDefaultPort);
  if (const int failed = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found); failed != 0) {
    return Error::make(Code::unavailable, std::string("cannot look up Redis: ") + ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  int error = ECONNREFUSED;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    UniqueFd fd{::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (!fd) continue;
    set_timeouts(fd.get());
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(fd.get(), each->ai_addr, each->ai_addrlen) == 0) return fd;
    error = errno;
  }
  return Error::from_errno("cannot connect to Redis", error);
}

Result<UniqueFd> open_socket(const std::string& url) {
  TRY(const platform::Address address, platform::parse_address(url));
  TRY(UniqueFd fd, address.scheme == "unix" ? connect_path(address.path) : connect_host(address));
  ::fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd;
}

RedisReply convert(const redisReply& from, int depth = 0) {
  RedisReply reply;
  switch (from.type) {
    case REDIS_REPLY_INTEGER:
      reply.kind = RedisReply::Kind::integer;
      reply.integer = from.integer;
      break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
      reply.kind = from.type == REDIS_REPLY_ERROR ? RedisReply::Kind::error : RedisReply::Kind::text;
      reply.text.assign(from.str, static_cast<std::size_t>(from.len));
      break;
    case REDIS_REPLY_ARRAY:
      reply.kind = RedisReply::Kind::array;
      for (std::size_t i = 0; i < from.elements && depth < kMaxDepth; ++i) {
        reply.items.push_back(convert(*from.element[i], depth + 1));
      }
      break;
    default:
      break;
  }
  return reply;
}

// What send() makes of them, at most.
std::size_t bytes_of(const std::vector<std::string>& words) {
  constexpr std::size_t kAround = 32;
  std::size_t bytes = kAround;
  for (const std::string& word : words) bytes += word.size() + kAround;
  return bytes;
}

void append_number(std::string& out, char kind, std::size_t number) {
  std::array<char, 24> text;  // 20 digits at most
  const char* end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  out.push_back(kind);
  out.append(text.data(), static_cast<std::size_t>(end - text.data())).append("\r\n");
}

// hiredis makes room for as many elements as an array says it has, before they come. Those of nested ones count too.
struct Reading {
  std::unique_ptr<redisReader, decltype(&::redisReaderFree)> reader{::redisReaderCreate(), &::redisReaderFree};
  redisReplyObjectFunctions functions = *reader->fn;
  decltype(redisReplyObjectFunctions::createArray) make_array = functions.createArray;
  std::size_t bytes = 0, items = 0;  // of the reply under way

  Reading() {
    functions.createArray = [](const redisReadTask* task, auto count) -> void* {
      auto& self = *static_cast<Reading*>(task->privdata);
      self.items += static_cast<std::size_t>(count);
      return self.items <= platform::kMaxRedisReplyItems ? self.make_array(task, count) : nullptr;
    };
    reader->fn = &functions;
    reader->privdata = this;
  }
  // Of what is not whole yet. All begins with a line, whose end hiredis looks for from its beginning each time.
  bool may_go_on() const {
    const std::size_t left = reader->len - reader->pos;
    return bytes <= platform::kMaxRedisReplyBytes &&
           (left < kMaxLineBytes || std::memchr(reader->buf + reader->pos, '\n', kMaxLineBytes) != nullptr);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
};

bool is_push(const RedisReply& reply) {
  return reply.kind == RedisReply::Kind::array && !reply.items.empty() && reply.items[0].text == "pmessage";
}

}  // namespace

struct Redis::Connection {
  std::unique_ptr<ipc::Watch> watch;
  Reading reading;
  std::string out;
  std::size_t sent = 0;  // of `out`
  bool is_writing = false;
  bool is_gone = false;
  // When something came, or some of what had to wait went out. What the kernel takes at once is no sign of life.
  SteadyTime moved_at;
  ipc::Loop::TimerId timer = 0;  // runs while an answer is awaited
  // In the order of their commands. Each is part of the coroutine that waits for it, which nobody ends meanwhile.
  std::deque<ipc::OneShot<Result<RedisReply>>*> waiting;

  std::size_t unsent() const { return out.size() - sent; }
  ssize_t send_some() {
    const ssize_t count = ::send(watch->fd(), out.data() + sent, unsent(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) sent += static_cast<std::size_t>(count);
    if (unsent() == 0) {
      out.clear();
      sent = 0;
      if (out.capacity() > kKeptBytes) out.shrink_to_fit();
    }
    return count;
  }
};

Redis::Redis(const platform::Config& config, Machinery& machinery, std::vector<std::string> first)
    : config_(config), machinery_(machinery), first_(std::move(first)), connecting_(machinery.sessions.loop()) {}

Redis::~Redis() = default;

Task<Status> Redis::connect() {
  if (machinery_.clock.steady() - failed_at_ < kFailFast) co_return backend_down(failure_);
  const std::string url = config_.options_of("redis").url;
  auto fd = co_await connecting_.run([&] { return open_socket(url); });
  const auto fail = [&](const Error& error) {
    failed_at_ = machinery_.clock.steady();
    failure_ = error.describe();
    return backend_down(failure_);
  };
  if (!fd) co_return fail(fd.error());
  auto connection = std::make_shared<Connection>();
  CO_TRY(connection->watch, ipc::Watch::open(machinery_.sessions.loop(), std::move(*fd)));
  listen(connection);
  if (const std::string& name = config_.options_of("redis").credential; !name.empty()) {
    auto secret = read_credential(config_, name);
    if (!secret) {
      drop(connection, "no credential");
      co_return fail(secret.error());
    }
    std::vector<std::string> auth = {"AUTH", *secret};
    const Status greeted = co_await greet(connection, std::move(auth));
    if (!greeted) co_return fail(greeted.error());
  }
  if (!first_.empty()) {
    const Status greeted = co_await greet(connection, first_);
    if (!greeted) co_return fail(greeted.error());
  }
  if (connection->is_gone) co_return fail(Error::make(Code::unavailable, "the connection broke"));
  connection_ = std::move(connection);
  co_return ok();
}

// What a connection begins with. One on which that is refused is of no use. Of what Redis says of it nothing is kept:
// it may repeat a credential.
Task<Status> Redis::greet(std::shared_ptr<Connection> connection, std::vector<std::string> words) {
  ipc::OneShot<Result<RedisReply>> answered;
  connection->waiting.push_back(&answered);
  send(connection, words);
  ipc::Loop& loop = machinery_.sessions.loop();
  const auto timer = loop.after(platform::kProbeTimeout, [self = shared_from_this(), connection, name = words[0]] {
    self->drop(connection, "no answer to " + name + " in time");
  });
  const auto reply = co_await answered;
  loop.cancel(timer);
  if (!reply) co_return reply.error();
  if (reply->kind != RedisReply::Kind::error) co_return ok();
  drop(connection, "refused");
  co_return Error::make(Code::unavailable, "Redis refuses " + words[0]);
}

Task<Status> Redis::be_connected() {
  const auto self = shared_from_this();
  if (!connection_ && is_connecting_) {
    const auto ready = std::make_shared<ipc::OneShot<Status>>();
    waiting_.push_back(ready);
    CO_TRY(co_await *ready);
  } else if (!connection_) {
    is_connecting_ = true;
    const Status connected = co_await connect();
    is_connecting_ = false;
    for (const auto& ready : std::exchange(waiting_, {})) ready->resolve(connected);
    CO_TRY(connected);
  }
  if (!connection_) co_return backend_down("the connection broke");
  co_return ok();
}

Task<Result<RedisReply>> Redis::command(std::vector<std::string> words) {
  const auto self = shared_from_this();
  if (!connection_) CO_TRY(co_await be_connected());
  const std::shared_ptr<Connection> connection = connection_;
  if (connection->unsent() + bytes_of(words) > platform::kMaxUnsentToRedis) {
    Error error = Error::make(Code::rate_limited, "more is sent to the backend than it takes; try again");
    error.retryable = true;
    co_return error;
  }
  ipc::OneShot<Result<RedisReply>> answered;
  if (connection->waiting.empty()) connection->moved_at = machinery_.clock.steady();
  connection->waiting.push_back(&answered);
  if (connection->timer == 0) give_up_on_silence(connection, kAnswerTimeout);
  send(connection, words);
  words.clear();  // a large value is in memory once
  auto reply = co_await answered;
  co_return reply;
}

// A large value may take its time, of whoever it is, as long as it moves: the connection is everybody's.
void Redis::give_up_on_silence(const std::shared_ptr<Connection>& connection, Millis patience) {
  connection->timer = machinery_.sessions.loop().after(patience, [self = shared_from_this(), connection] {
    connection->timer = 0;
    if (connection->waiting.empty()) return;
    const auto silent = std::chrono::duration_cast<Millis>(self->machinery_.clock.steady() - connection->moved_at);
    if (silent >= kAnswerTimeout) return self->drop(connection, "no answer in time");
    self->give_up_on_silence(connection, kAnswerTimeout - silent);
  });
}

void Redis::send(const std::shared_ptr<Connection>& connection, const std::vector<std::string>& words) {
  // An array of strings, each behind its length. hiredis would print them, which costs more than all the rest.
  std::string& out = connection->out;
  // What was sent goes once it is the larger part: each byte is moved once at most, on the average.
  if (connection->sent > out.size() / 2) out.erase(0, std::exchange(connection->sent, 0));
  append_number(out, '*', words.size());
  for (const std::string& word : words) {
    append_number(out, '$', word.size());
    out.append(word).append("\r\n");
  }
  if (connection->is_writing) return;
  // What cannot be written now, or fails, is the writer's business.
  connection->send_some();
  if (connection->unsent() == 0) return;
  connection->is_writing = true;
  machinery_.sessions.loop().post([self = shared_from_this(), connection] { self->write_rest(connection); });
}

Fire Redis::write_rest(std::shared_ptr<Connection> connection) {
  const auto self = shared_from_this();
  while (connection->unsent() != 0) {
    const bool is_writable = co_await connection->watch->writable();
    if (!is_writable) co_return;
    const ssize_t sent = connection->send_some();
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      drop(connection, errno_name(errno));
      co_return;
    }
    if (sent > 0) connection->moved_at = machinery_.clock.steady();
  }
  connection->is_writing = false;
}

Fire Redis::listen(std::shared_ptr<Connection> connection) {
  const auto self = shared_from_this();
  std::string block(64U << 10, '\0');
  for (;;) {
    const bool is_readable = co_await connection->watch->readable();
    if (!is_readable) break;
    const ssize_t count = ::recv(connection->watch->fd(), block.data(), block.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) {
      drop(connection, count == 0 ? "closed by Redis" : errno_name(errno));
      co_return;
    }
    connection->moved_at = machinery_.clock.steady();
    const bool is_good = take_replies(*connection, std::string_view(block).substr(0, static_cast<std::size_t>(count)));
    if (!is_good) {
      drop(connection, "Redis broke its protocol, or answered with more than it may");
      co_return;
    }
  }
  drop(connection, "the loop ended");
}

bool Redis::take_replies(Connection& connection, std::string_view bytes) {
  Reading& reading = connection.reading;
  reading.bytes += bytes.size();
  if (::redisReaderFeed(reading.reader.get(), bytes.data(), bytes.size()) != REDIS_OK) return false;
  for (;;) {
    void* raw = nullptr;
    if (::redisReaderGetReply(reading.reader.get(), &raw) != REDIS_OK) return false;
    if (raw == nullptr) return reading.may_go_on();
    reading.bytes = reading.items = 0;
    RedisReply reply = convert(*static_cast<redisReply*>(raw));
    ::freeReplyObject(raw);
    if (is_push(reply)) {
      if (on_message_) on_message_(reply);
      continue;
    }
    if (connection.waiting.empty()) return false;
    auto* const waiter = connection.waiting.front();
    connection.waiting.pop_front();
    waiter->resolve(std::move(reply));
  }
}

void Redis::drop(const std::shared_ptr<Connection>& connection, const std::string& why) {
  if (std::exchange(connection->is_gone, true)) return;
  if (connection_ == connection) {
    connection_.reset();
    machinery_.log.warn("the connection to Redis is gone; the next call makes a new one", {{"why", why}});
  }
  machinery_.sessions.loop().cancel(std::exchange(connection->timer, 0));
  connection->watch->cancel();
  for (auto* const waiter : std::exchange(connection->waiting, {})) waiter->resolve(backend_down(why));
}

}  // namespace sallyport::adapters

#include "support/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "os/sockets.h"

namespace sallyport::testing {

Client Client::unix_socket(const std::string& path) {
  auto fd = os::connect_unix(path);
  return Client(fd ? std::move(*fd) : UniqueFd());
}

Client Client::tcp(const std::string& address) {
  auto fd = os::connect_loopback(address);
  return Client(fd ? std::move(*fd) : UniqueFd());
}

bool Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = out_ ? ::write(out_.get(), bytes.data(), bytes.size())
                               : ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::size_t Client::send_some(std::string_view bytes) {
  const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return count < 0 ? 0 : static_cast<std::size_t>(count);
}

void Client::half_close() {
  if (out_) return out_.reset();
  ::shutdown(fd_.get(), SHUT_WR);
}

bool Client::has_data(std::chrono::milliseconds patience) {
  pollfd state{fd_.get(), POLLIN, 0};
  return ::poll(&state, 1, static_cast<int>(patience.count())) == 1;
}

std::optional<std::string> Client::next_body() {
  for (;;) {
    auto frame = reader_.next();
    if (!frame) {
      ADD_FAILURE() << "the daemon broke the framing: " << frame.error().message;
      return std::nullopt;
    }
    if (*frame) return std::string(as_text(**frame));
    if (!has_data(kPatience)) {
      ADD_FAILURE() << "nothing came from the daemon";
      return std::nullopt;
    }
    const auto room = reader_.writable();
    const ssize_t count = ::read(fd_.get(), room.data(), room.size());
    if (count <= 0) return std::nullopt;
    reader_.commit(static_cast<std::size_t>(count));
  }
}

std::optional<wire::Message> Client::next_message() {
  const auto body = next_body();
  if (!body) return std::nullopt;
  auto message = decode(*body);
  if (!message) {
    ADD_FAILURE() << "the daemon sent what is no message: " << *body;
    return std::nullopt;
  }
  // A call that waits for a human is told so, with nothing but the question's id.
  if (message->type == wire::MessageType::event && message->method == "approval.asked" && message->params.size() == 1) {
    ++told_to_wait_;
    return next_message();
  }
  if (message->type == wire::MessageType::event && message->method == "audit.delayed") return next_message();
  return std::move(*message);
}

bool Client::is_closed_by_peer() {
  char block[4096];
  for (;;) {
    if (!has_data(kPatience)) return false;
    if (::read(fd_.get(), block, sizeof block) <= 0) return true;
  }
}

std::optional<wire::Message> Client::call(std::string_view method, std::string_view params, std::string_view token) {
  const std::string id = "call-" + std::to_string(++calls_);
  Bytes out;
  EXPECT_TRUE(wire::append_request(out, {.id = id, .method = method, .deadline_ms = {}, .token = token}, params));
  send(as_text(out.view()));
  auto message = next_message();
  if (message && !message->id.empty()) {
    EXPECT_EQ(message->id, id);
  }
  return message;
}

std::string Client::outcome(std::string_view method, std::string_view params, std::string_view token) {
  return code_of(call(method, params, token));
}

std::string code_of(const std::optional<wire::Message>& message) {
  if (!message) return "CLOSED";
  return message->error ? std::string(to_string(message->error->code)) : "OK";
}

std::string code_for_nobody(const std::optional<wire::Message>& message) {
  if (message) {
    EXPECT_EQ(message->id, "");
  }
  return code_of(message);
}

std::int64_t status_number(const std::string& socket_path, std::initializer_list<const char*> path) {
  Client client = Client::unix_socket(socket_path);
  if (!client) return -1;
  const auto message = client.call("warden.status");
  if (!message) return -1;
  wire::Value value = message->result;
  for (const char* name : path) value = value.get(name);
  return value.as_int().value_or(-1);
}

}  // namespace sallyport::testing

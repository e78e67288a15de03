// A peer without manners: raw bytes to a door and whatever comes back.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "support/daemon.h"
#include "support/wire.h"
#include "wire/wire.h"

namespace sallyport::testing {

class Client {
 public:
  explicit Client(UniqueFd fd) : fd_(std::move(fd)) {}
  Client(UniqueFd in, UniqueFd out) : fd_(std::move(in)), out_(std::move(out)) {}

  // An unconnected client if nobody listens.
  static Client unix_socket(const std::string& path);
  static Client tcp(const std::string& address);

  explicit operator bool() const { return bool(fd_); }
  int fd() const { return fd_.get(); }

  bool send(std::string_view bytes);  // all of them; false if the peer is gone
  // As many as go without waiting.
  std::size_t send_some(std::string_view bytes);
  void half_close();
  void close() {
    fd_.reset();
    out_.reset();
  }

  // The next frame's body; nullopt at the end of the connection, or when nothing comes (a failure).
  std::optional<std::string> next_body();
  // The next frame as a message; fails the test if it is none. The end is nullopt. That a call waits for a human
  // is counted and passed over.
  std::optional<wire::Message> next_message();
  // True once the other side has closed, whatever else it sends before.
  bool is_closed_by_peer();
  bool has_data(std::chrono::milliseconds patience);

  bool send_request(std::string_view id, std::string_view method, std::string_view params = {}) {
    return send(request_frame(id, method, params));
  }
  // One request, and the next message, which must answer it.
  std::optional<wire::Message> call(std::string_view method, std::string_view params = {}, std::string_view token = {});
  // The code of the answer to a request: "OK" for a result, "CLOSED" at the end.
  std::string outcome(std::string_view method, std::string_view params = {}, std::string_view token = {});
  bool pings() { return outcome("test.ping") == "OK"; }
  int told_to_wait() const { return told_to_wait_; }

 private:
  UniqueFd fd_, out_;
  wire::FrameReader reader_;
  std::uint64_t calls_ = 0;
  int told_to_wait_ = 0;
};

// "OK", the error's code, or "CLOSED".
std::string code_of(const std::optional<wire::Message>& message);
// The code, for an answer that must go to `"id":null`.
std::string code_for_nobody(const std::optional<wire::Message>& message);

// A number in warden.status, by its path: {"counters", "refused"}.
std::int64_t status_number(const std::string& socket_path, std::initializer_list<const char*> path);

}  // namespace sallyport::testing

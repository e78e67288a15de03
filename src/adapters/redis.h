// One connection to Redis, on the loop: commands of all tenants are pipelined on it. Comes up when it is needed,
// and again after it broke.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/offload.h"

namespace sallyport::adapters {

struct RedisReply {
  enum class Kind : std::uint8_t { nothing, integer, text, array, error } kind = Kind::nothing;
  std::int64_t integer = 0;
  std::string text;
  std::vector<RedisReply> items;
};

class Redis : public std::enable_shared_from_this<Redis> {
 public:
  // Every connection begins with the command `first`, if it is given; without Redis' consent to it there is none.
  Redis(const platform::Config& config, Machinery& machinery, std::vector<std::string> first = {});
  ~Redis();
  Redis(const Redis&) = delete;
  Redis& operator=(const Redis&) = delete;

  // UNAVAILABLE (retryable) if there is no connection, it breaks, or nothing moves on it for too long. RATE_LIMITED
  // (retryable) while too much waits to be sent. An error that Redis answers with is a reply.
  Task<Result<RedisReply>> command(std::vector<std::string> words);
  // For who waits for messages only. Errors as those of command().
  Task<Status> be_connected();
  // Messages of subscriptions, on a connection that has some.
  void on_message(std::function<void(const RedisReply&)> handle) { on_message_ = std::move(handle); }
  bool is_connected() const { return connection_ != nullptr; }

 private:
  struct Connection;
  Task<Status> connect();
  Task<Status> greet(std::shared_ptr<Connection> connection, std::vector<std::string> words);
  Fire listen(std::shared_ptr<Connection> connection);
  void send(const std::shared_ptr<Connection>& connection, const std::vector<std::string>& words);
  Fire write_rest(std::shared_ptr<Connection> connection);
  void give_up_on_silence(const std::shared_ptr<Connection>& connection, Millis patience);
  void drop(const std::shared_ptr<Connection>& connection, const std::string& why);
  bool take_replies(Connection& connection, std::string_view bytes);

  const platform::Config& config_;
  Machinery& machinery_;
  std::vector<std::string> first_;
  Offload connecting_;  // looking up names and connecting block
  std::shared_ptr<Connection> connection_;
  bool is_connecting_ = false;
  std::vector<std::shared_ptr<ipc::OneShot<Status>>> waiting_;
  SteadyTime failed_at_;
  std::string failure_;
  std::function<void(const RedisReply&)> on_message_;
};

}  // namespace sallyport::adapters

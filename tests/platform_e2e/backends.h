// Real and misbehaving backends, each gone when the test is over.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace sallyport::testing {

// redis-server on a Unix socket of its own.
class RedisServer {
 public:
  explicit RedisServer(std::string directory, std::string password = {});
  ~RedisServer() { stop(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  bool start();  // true once it answers
  void stop();
  void signal(int number) const;
  std::string url() const { return "unix://" + socket(); }
  std::string socket() const { return directory_ + "/redis.sock"; }
  // A command through redis-cli; what it prints.
  std::string ask(const std::string& words) const;

 private:
  std::string directory_, password_;
  pid_t pid_ = -1;
};

// An HTTP server on loopback whose answers a test writes by hand. Serves each connection on a thread.
class WebServer {
 public:
  struct Request {
    std::string method, path, body;
    std::map<std::string, std::string> headers;  // names in lower case
  };
  // Writes whatever it likes; the connection closes when it returns.
  using Handle = std::function<void(const Request&, int connection)>;
  explicit WebServer(Handle handle);
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1"; }
  std::vector<Request> requests();
  std::size_t most_connections();  // at once

  static bool write(int connection, const std::string& text);
  static std::string json(const std::string& body, const std::string& status = "200 OK", const std::string& more = "");
  // The head of an event stream, and one token of it.
  static std::string stream_head();
  static std::string token(const std::string& text);

 private:
  void serve();
  void serve_one(int connection);

  Handle handle_;
  UniqueFd listening_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<Request> requests_;
  std::set<int> open_;
  std::size_t most_ = 0;
  std::vector<std::thread> threads_;
  std::atomic<bool> is_ending_ = false;
  std::thread accepting_;
};

}  // namespace sallyport::testing

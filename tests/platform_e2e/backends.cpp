#include "platform_e2e/backends.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "support/daemon.h"
#include "support/shell.h"

namespace sallyport::testing {

RedisServer::RedisServer(std::string directory, std::string password)
    : directory_(std::move(directory)), password_(std::move(password)) {}

bool RedisServer::start() {
  std::fflush(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(null, fd);
    std::vector<std::string> words = {"redis-server", "--port", "0", "--unixsocket", socket(), "--unixsocketperm",
                                      "700",          "--save", "",  "--appendonly", "no",     "--dir",
                                      directory_};
    if (!password_.empty()) words.insert(words.end(), {"--requirepass", password_});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::execvp("redis-server", arguments.data());
    ::_exit(127);
  }
  return eventually([&] { return ask("PING").find("PONG") != std::string::npos; });
}

void RedisServer::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  ::unlink(socket().c_str());
}

void RedisServer::signal(int number) const { ::kill(pid_, number); }

std::string RedisServer::ask(const std::string& words) const {
  const std::string command = (password_.empty() ? "" : "REDISCLI_AUTH='" + password_ + "' ") + "redis-cli -s '" +
                              socket() + "' " + words + " 2>&1";
  return run_shell(command).output;
}

// ---- web ----

WebServer::WebServer(Handle handle) : handle_(std::move(handle)) {
  listening_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(listening_.get(), 256) != 0 ||
      ::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { serve(); });
}

WebServer::~WebServer() {
  is_ending_ = true;
  accepting_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int connection : open_) ::shutdown(connection, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
}

void WebServer::serve() {
  while (!is_ending_) {
    pollfd waiting{listening_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 50) <= 0) continue;
    const int connection = ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    const std::lock_guard lock(mutex_);
    open_.insert(connection);
    most_ = std::max(most_, open_.size());
    threads_.emplace_back([this, connection] { serve_one(connection); });
  }
}

void WebServer::serve_one(int connection) {
  std::string bytes;
  std::array<char, 16384> block{};
  std::size_t head = std::string::npos;
  const auto receive = [&] {
    const ssize_t count = ::recv(connection, block.data(), block.size(), 0);
    if (count > 0) bytes.append(block.data(), static_cast<std::size_t>(count));
    return count > 0;
  };
  while (head == std::string::npos && receive()) head = bytes.find("\r\n\r\n");
  if (head != std::string::npos) {
    Request request;
    std::size_t at = bytes.find("\r\n");
    const std::string first = bytes.substr(0, at);
    request.method = first.substr(0, first.find(' '));
    request.path = first.substr(request.method.size() + 1, first.rfind(' ') - request.method.size() - 1);
    while (at < head) {
      const std::size_t end = bytes.find("\r\n", at + 2);
      const std::string line = bytes.substr(at + 2, end - at - 2);
      std::string name = line.substr(0, line.find(':'));
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      if (line.find(": ") != std::string::npos) request.headers[name] = line.substr(line.find(": ") + 2);
      at = end;
    }
    const std::size_t length = std::strtoul(request.headers["content-length"].c_str(), nullptr, 10);
    while (bytes.size() < head + 4 + length && receive()) {
    }
    request.body = bytes.substr(head + 4);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    handle_(request, connection);
  }
  {
    const std::lock_guard lock(mutex_);
    open_.erase(connection);
  }
  ::close(connection);
}

std::vector<WebServer::Request> WebServer::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::size_t WebServer::most_connections() {
  const std::lock_guard lock(mutex_);
  return most_;
}

bool WebServer::write(int connection, const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

std::string WebServer::json(const std::string& body, const std::string& status, const std::string& more) {
  return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nConnection: close\r\n" + more + "\r\n" + body;
}

std::string WebServer::stream_head() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
}

std::string WebServer::token(const std::string& text) {
  return "data: {\"choices\":[{\"delta\":{\"content\":\"" + text + "\"}}]}\n\n";
}

}  // namespace sallyport::testing

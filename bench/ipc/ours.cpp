#include "ours.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>

namespace sallyport::bench {
namespace {

constexpr int kStartTimeoutMs = 5000;
constexpr Millis kAnswerTimeout{10'000};

template <typename T>
T must(Result<T> result) {
  if (!result) die(result.error().describe());
  return std::move(*result);
}
void must(const Status& status) {
  if (!status) die(status.error().describe());
}

}  // namespace

Daemon::Daemon(const std::string& program, int cpu, const std::vector<std::string>& options)
    : directory_(std::make_shared<Directory>()) {
  start(program, cpu, options);
}

Daemon::Daemon(const std::string& program, std::shared_ptr<Directory> state, int cpu)
    : directory_(std::move(state)), ends_in_order_(true) {
  start(program, cpu, {});
}

void Daemon::start(const std::string& program, int cpu, const std::vector<std::string>& options) {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) die("pipe failed");
  UniqueFd wait_for{ready[0]}, tell{ready[1]};
  std::vector<std::string> command = {program, "--log-level", "warn", "--ready-fd", std::to_string(tell.get())};
  command.insert(command.end(), options.begin(), options.end());
  process_ = Process::exec(command, {.extra = tell.get()}, cpu,
                           {"SALLYPORT_RUNTIME_DIR=" + directory_->path(), "SALLYPORT_STATE_DIR=" + directory_->path(),
                            "SALLYPORT_CONFIG=" + directory_->path() + "/sallyport.toml"});
  tell.reset();
  char byte = 0;
  pollfd event{wait_for.get(), POLLIN, 0};
  if (::poll(&event, 1, kStartTimeoutMs) != 1 || ::read(wait_for.get(), &byte, 1) != 1) {
    die(program + " does not start");
  }
}

Daemon::~Daemon() {
  if (ends_in_order_) process_.ask_to_stop();
  process_.stop();
}

std::unique_ptr<Client> Daemon::connect() const { return must(Client::connect_unix(socket())); }

std::unique_ptr<Client> Daemon::connect_tcp() const {
  return must(Client::connect_loopback(must(read_loopback_file(directory_->path() + "/warden.json"))));
}

void Ours::ping() {
  const Answer answer = must(client_->call("test.ping"));
  if (answer.value().get("pong").as_bool() != true) die("a ping without a pong");
}

void Ours::echo_json(const std::string& params) {
  const Answer answer = must(client_->call("test.echo", params));
  if (answer.value().get("data").as_string().value_or("").size() != kMegabyte) die("the echo is cut short");
}

void Ours::echo_chunks(ByteView bytes) {
  const std::uint32_t out = must(client_->open_stream());
  std::uint32_t in = 0;
  must(client_->start("test.echo", "{\"data\":{\"$stream\":" + std::to_string(out) + "}}", [&](Result<Answer> answer) {
    in = static_cast<std::uint32_t>(must(std::move(answer)).value().get("data").get("$stream").as_uint().value_or(0));
  }));
  must(client_->write_stream(out, bytes));
  must(client_->finish_stream(out));
  while (in == 0) must(client_->dispatch(kAnswerTimeout));
  std::size_t came = 0;
  for (;;) {
    const Bytes piece = must(client_->read_stream(in));
    if (piece.empty()) break;
    came += piece.size();
  }
  if (came != bytes.size()) die("the echo is cut short");
}

void Ours::pipeline(int calls) {
  int sent = 0, answered = 0;
  // Started where an answer is handled, the next calls of one read leave together.
  const std::function<void()> start = [&] {
    ++sent;
    must(client_->start("test.ping", {}, [&](Result<Answer> answer) {
      if (must(std::move(answer)).value().get("pong").as_bool() != true) die("a ping without a pong");
      ++answered;
      if (sent < calls) start();
    }));
  };
  while (sent < static_cast<int>(kWindow)) start();
  while (answered < calls) must(client_->dispatch(kAnswerTimeout));
}

OursFanOut::OursFanOut(const Daemon& daemon) {
  for (std::size_t i = 0; i < kWindow; ++i) clients_.push_back(daemon.connect());
}

void OursFanOut::run(int calls) {
  const UniqueFd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  int sent = 0, answered = 0;
  const auto start = [&](Client& client) {
    ++sent;
    must(client.start("test.ping", {}, [&](Result<Answer> answer) {
      must(std::move(answer));
      ++answered;
    }));
  };
  for (const auto& client : clients_) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = client.get()}};
    ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, client->fd(), &event);
    start(*client);
  }
  while (answered < sent) {
    std::array<epoll_event, kWindow> events{};
    const int count = ::epoll_wait(epoll.get(), events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      auto& client = *static_cast<Client*>(events[static_cast<std::size_t>(i)].data.ptr);
      must(client.dispatch(Millis(0)));
      if (sent < calls) start(client);
    }
  }
}

}  // namespace sallyport::bench

#include "terminals.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "../ipc/relay.h"
#include "os/sockets.h"
#include "pod/attach.h"
#include "pod/record.h"
#include "pod/terminal.h"
#include "pod/terminal_filter.h"

namespace sallyport::bench {

void give_up(const std::string& what) {
  std::fprintf(stderr, "bench pod: %s\n", what.c_str());
  std::exit(1);
}

namespace {

constexpr std::size_t kBlock = 64U << 10;

template <typename T>
T must(Result<T> result, const char* what) {
  if (!result) give_up(std::string(what) + ": " + result.error().describe());
  return std::move(*result);
}

}  // namespace

double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

double cpu_of(pid_t pid) {
  // Nanoseconds on a CPU: the ticks of /proc/PID/stat are too coarse.
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  double nanoseconds = 0;
  file >> nanoseconds;
  return nanoseconds / 1e9;
}

OnPty::OnPty(const std::string& command, bool is_raw_outside)
    : buffer_(std::make_unique_for_overwrite<char[]>(kBlock)) {
  auto terminal = must(pod::open_terminal({24, 80}), "terminal");
  if (is_raw_outside) {
    termios modes{};
    ::tcgetattr(terminal.slave.get(), &modes);
    ::cfmakeraw(&modes);
    ::tcsetattr(terminal.slave.get(), TCSANOW, &modes);
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setsid();
    for (int fd = 0; fd < 3; ++fd) ::dup2(terminal.slave.get(), fd);
    ::ioctl(0, TIOCSCTTY, 0);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  master_ = std::move(terminal.master);
  ::fcntl(master_.get(), F_SETFL, 0);
}

OnPty::~OnPty() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  finish();
}

void OnPty::type(std::string_view keys) const {
  if (::write(master_.get(), keys.data(), keys.size()) != static_cast<ssize_t>(keys.size())) give_up("cannot type");
}

std::string_view OnPty::read() { return read_at_most(kBlock); }

std::string_view OnPty::read_at_most(std::size_t bytes) {
  const ssize_t count = ::read(master_.get(), buffer_.get(), std::min(bytes, kBlock));
  return {buffer_.get(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

bool OnPty::has_output(int millis) const {
  pollfd ready{master_.get(), POLLIN, 0};
  return ::poll(&ready, 1, millis) > 0;
}

void OnPty::finish() {
  if (pid_ > 0) ::waitpid(std::exchange(pid_, -1), nullptr, 0);
}

namespace {

void run_on(pid_t pid, bool only_first_core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int i = 0; i < (only_first_core ? 1 : static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))); ++i)
    CPU_SET(i, &cores);
  if (::sched_setaffinity(pid, sizeof cores, &cores) != 0) give_up("cannot choose a core");
}

}  // namespace

OnOneCore::OnOneCore(pid_t other) : other_(other) {
  run_on(0, true);
  run_on(other_, true);
}

OnOneCore::~OnOneCore() {
  run_on(0, false);
  run_on(other_, false);
}

OnDtach::OnDtach(const std::string& path, const std::string& script)
    : buffer_(std::make_unique_for_overwrite<char[]>(kBlock)) {
  const std::string command = "dtach -n " + path + " -E -z -r none sh -c '" + script + "'";
  if (std::system(command.c_str()) != 0) give_up("cannot start dtach");
  socket_ = must(os::connect_unix(path), "dtach");
  constexpr unsigned char kAttach = 1;
  send(kAttach, {});
}

// A packet is a type, a length and eight bytes; what comes back is the terminal's output as it is.
void OnDtach::send(unsigned char type, std::string_view content) const {
  std::array<char, 10> packet{};
  packet[0] = static_cast<char>(type);
  packet[1] = static_cast<char>(content.size());
  std::copy(content.begin(), content.end(), packet.begin() + 2);
  if (::write(socket_.get(), packet.data(), packet.size()) != static_cast<ssize_t>(packet.size())) {
    give_up("dtach ended");
  }
}

void OnDtach::type(std::string_view keys) const {
  constexpr unsigned char kPush = 0;
  send(kPush, keys);
}

std::string_view OnDtach::read() {
  const ssize_t count = ::read(socket_.get(), buffer_.get(), kBlock);
  return {buffer_.get(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

namespace {

std::pair<UniqueFd, UniqueFd> connected(bool with_tcp) {
  if (!with_tcp) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) give_up("socketpair failed");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }
  const auto listener = must(os::listen_loopback(), "listen");
  UniqueFd near = must(os::connect_loopback(listener.address), "connect");
  UniqueFd far{::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC)};
  return {std::move(near), std::move(far)};
}

}  // namespace

OnRelay::OnRelay(const std::string& script, bool with_tcp) : buffer_(std::make_unique_for_overwrite<char[]>(kBlock)) {
  auto [near, far] = connected(with_tcp);
  pid_ = ::fork();
  if (pid_ == 0) {
    near.reset();
    OnPty terminal(script, false);
    relay(terminal.fd(), far.get());
  }
  socket_ = std::move(near);
}

OnRelay::~OnRelay() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void OnRelay::type(std::string_view keys) const {
  if (::send(socket_.get(), keys.data(), keys.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(keys.size())) {
    give_up("the relay ended");
  }
}

// Not a read that blocks, which the kernel would also wake when the relay takes what was sent.
std::string_view OnRelay::read() {
  pollfd ready{socket_.get(), POLLIN, 0};
  ::poll(&ready, 1, -1);
  const ssize_t count = ::read(socket_.get(), buffer_.get(), kBlock);
  return {buffer_.get(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

OnPod::OnPod(Client& warden, const std::string& pods_dir, const std::string& workspace, const std::string& script,
             bool with_tcp)
    : pods_dir_(pods_dir) {
  const auto made = must(warden.call("pod.create", wire::to_json([&](wire::JsonWriter& json) {
                                       json.begin_object().key("command").begin_array();
                                       json.value("sh").value("-c").value(script).end_array();
                                       json.member("workspace", workspace);
                                       json.member("tcp", with_tcp).end_object();
                                     })),
                         "pod.create");
  name_ = made.value().get("pod").as_string().value_or("");
  daemon_ = static_cast<pid_t>(made.value().get("pid").as_int().value_or(-1));
}

OnPod::~OnPod() {
  if (daemon_ <= 0) return;
  ::kill(daemon_, SIGKILL);
}

void OnPod::attach() {
  const auto record = must(pod::find(pod::Place(pods_dir_, name_)), "find");
  client_ = must(pod::connect(record), "connect");
  client_->on_event([this](const wire::Message& event) {
    if (event.method == "pod.gap") {
      next_ = static_cast<std::uint32_t>(event.params.get("output").get("$stream").as_int().value_or(0));
      skipped_ += event.params.get("skipped").as_uint().value_or(0);
    }
    if (event.method == "pod.exit") has_exited_ = true;
  });
  input_ = must(client_->open_stream(), "stream");
  const auto answer =
      must(client_->call("pod.attach", R"({"input":{"$stream":)" + std::to_string(input_) + "}}"), "attach");
  output_ = static_cast<std::uint32_t>(answer.value().get("output").get("$stream").as_int().value_or(0));
}

void OnPod::type(std::string_view keys) {
  if (!client_->write_stream(input_, as_bytes(keys))) give_up("cannot type");
}

std::string_view OnPod::read() {
  for (;;) {
    auto piece = client_->read_stream(output_, Millis(60'000));
    if (!piece && piece.error().code == Code::timeout) give_up("a pod says nothing");
    if (piece && !piece->empty()) {
      last_.assign(as_text(piece->view()));
      return last_;
    }
    while (next_ == 0 && !has_exited_) {
      if (!client_->dispatch(Millis(60'000))) return {};
    }
    if (next_ == 0) return {};
    output_ = std::exchange(next_, 0);
  }
}

void OnPod::wait() {
  const auto record = must(pod::find(pod::Place(pods_dir_, name_)), "find");
  const auto client = must(pod::connect(record), "connect");
  must(client->call("pod.wait", "{}", {.deadline = Millis(600'000), .token = {}}), "wait");
}

void OnPod::collect() {
  const auto record = must(pod::find(pod::Place(pods_dir_, name_)), "find");
  const auto client = must(pod::connect(record), "connect");
  must(client->call("pod.wait", R"({"collect":true})", {.deadline = Millis(600'000), .token = {}}), "wait");
  daemon_ = -1;
}

}  // namespace sallyport::bench

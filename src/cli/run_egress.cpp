#include "cli/run_egress.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>

#include "egress/link.h"
#include "os/packets.h"

namespace sallyport::cli {
namespace {

constexpr const char* kName = "run";
// How long the proxy may take to say what its last connections came to.
constexpr int kLastReportsMs = 2000;
// How long it may take to hear of a change. Until then what it knew holds.
constexpr int kOrderMs = 1000;
// A proxy that keeps dying is not started for ever.
constexpr int kMostDeaths = 8;

}  // namespace

RunEgress::~RunEgress() { reap(); }

void RunEgress::take(int listener) {
  if (listener >= 0) listener_ = UniqueFd(::fcntl(listener, F_DUPFD_CLOEXEC, 3));
}

void RunEgress::start() {
  auto spawned = egress::spawn_proxy(hosts_file_);
  Status handed = ok();
  if (spawned) {
    proxy_ = std::move(spawned->child);
    const auto order = egress::encode(egress::Serve{kName, policy_, tally_.used()});
    handed =
        order ? os::send_packet(spawned->socket.get(), *order, {listener_.get()}, MSG_DONTWAIT) : Status(order.error());
  }
  if (!spawned || !handed) {
    const std::string why = spawned ? handed.error().describe() : spawned.error().describe();
    reap();
    return give_up(why);
  }
  socket_ = std::move(spawned->socket);
}

// Whoever connects is refused by the kernel, and whoever waits is told so: the sandbox keeps the listener too, so that
// to close our copy would leave them waiting.
void RunEgress::give_up(std::string why) {
  fault_ = std::move(why);
  ::shutdown(listener_.get(), SHUT_RDWR);
  listener_.reset();
  std::fprintf(stderr, "sallyport: there is no network: the egress proxy could not be started: %s\n", fault_.c_str());
}

void RunEgress::update(policy::NetPolicy policy) {
  policy_ = std::move(policy);
  if (!socket_) return;  // it is told when it starts
  if (tell()) return;
  // One that cannot be told what changed must not go on with what it knows.
  take_reports();
  reap();
  start();
}

// A proxy that is busy is waited for, and its reports are taken meanwhile: every restart would end its connections.
bool RunEgress::tell() {
  const auto order = egress::encode(egress::Update{kName, policy_});
  if (!order) return false;
  const SteadyTime until = std::chrono::steady_clock::now() + Millis(kOrderMs);
  for (;;) {
    const Status sent = os::send_packet(socket_.get(), *order, {}, MSG_DONTWAIT);
    if (sent || sent.error().code != Code::unavailable) return bool(sent);
    const auto left = std::chrono::ceil<Millis>(until - std::chrono::steady_clock::now()).count();
    pollfd room{socket_.get(), POLLIN | POLLOUT, 0};
    if (left <= 0 || ::poll(&room, 1, static_cast<int>(left)) == 0 || !take_reports()) return false;
  }
}

void RunEgress::on_readable() {
  if (!socket_) return start();
  if (take_reports()) return;
  reap();
  if (++deaths_ <= kMostDeaths) return start();
  give_up("it died " + std::to_string(deaths_) + " times");
}

bool RunEgress::take_reports() {
  for (;;) {
    auto packet = os::receive_packet(socket_.get(), MSG_DONTWAIT);
    if (!packet) return packet.error().code == Code::unavailable;
    if (packet->bytes.empty()) return false;
    const auto report = egress::decode_report(decoder_, packet->bytes.view());
    if (!report) return false;
    tally_.add(*report);
    on_report_(*report);
  }
}

void RunEgress::finish() {
  listener_.reset();
  if (!socket_) return;
  ::shutdown(socket_.get(), SHUT_WR);
  pollfd waiting{socket_.get(), POLLIN, 0};
  while (::poll(&waiting, 1, kLastReportsMs) > 0 && take_reports()) {
  }
  reap();
}

void RunEgress::reap() {
  socket_.reset();
  proxy_.end();
}

}  // namespace sallyport::cli

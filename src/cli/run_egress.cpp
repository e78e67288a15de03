#include "cli/run_egress.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "egress/link.h"
#include "os/packets.h"

namespace sallyport::cli {
namespace {

constexpr const char* kName = "run";
// How long the proxy may take to say what its last connections came to.
constexpr int kLastReportsMs = 2000;
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
    fault_ = spawned ? handed.error().describe() : spawned.error().describe();
    reap();
    listener_.reset();  // whoever connects is refused by the kernel
    return;
  }
  socket_ = std::move(spawned->socket);
}

void RunEgress::on_readable() {
  if (!socket_) return start();
  if (take_reports()) return;
  reap();
  if (++deaths_ <= kMostDeaths) return start();
  fault_ = "it died " + std::to_string(deaths_) + " times";
  listener_.reset();
}

bool RunEgress::take_reports() {
  for (;;) {
    auto packet = os::receive_packet(socket_.get(), MSG_DONTWAIT);
    if (!packet) return packet.error().code == Code::unavailable;
    if (packet->bytes.empty()) return false;
    const auto report = egress::decode_report(decoder_, packet->bytes.view());
    if (!report) return false;
    tally_.add(*report);
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

#include "egress/egress.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <deque>

#include "egress/limits.h"
#include "egress/protocol.h"
#include "egress/proxy.h"
#include "egress/sums.h"
#include "ipc/ipc.h"
#include "os/landlock.h"
#include "os/packets.h"
#include "os/process.h"

namespace sallyport::egress {
namespace {

// What foreign bytes could make it do is bounded by this: it can read files as its user and use the network, but
// neither change nor execute anything, and nobody can look into it.
void give_up_rights(const Log& log) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const int abi = os::landlock::abi();
  if (abi < 1) return log.warn("no Landlock here: the egress proxy is not confined");
  os::landlock::Ruleset rules;
  rules.handled_fs = os::landlock::all_fs_rights(abi) & ~(os::landlock::kReadFile | os::landlock::kReadDir);
  if (abi >= 6) rules.scoped = os::landlock::kSignal | os::landlock::kAbstractUnixSocket;
  const int ruleset = os::landlock::create(rules, abi);
  if (ruleset < 0 || os::landlock::restrict_self(ruleset) != 0) log.warn("the egress proxy could not be confined");
  if (ruleset >= 0) ::close(ruleset);
}

// Reports leave in order. While the other side does not read they wait, and beyond a bound they are counted, each with
// its like: the proxy must not stand still for them, and none may be missing from what they come to.
class Reporter {
 public:
  explicit Reporter(ipc::Watch& socket) : socket_(socket) {}

  void send(const Report& report) {
    if (waiting_.size() < kMaxReports && beyond_.is_empty()) {
      push(report);
    } else {
      beyond_.add(report);
    }
    if (!is_draining_) drain();
  }

  // What still waits, to a side that may be slow but reads.
  void finish() {
    const timeval patience{std::chrono::duration_cast<std::chrono::seconds>(kLastReports).count(), 0};
    ::setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ::fcntl(socket_.fd(), F_SETFL, ::fcntl(socket_.fd(), F_GETFL) & ~O_NONBLOCK);
    while (has_next()) {
      if (!os::send_packet(socket_.fd(), waiting_.front(), {}, 0)) return;
      waiting_.pop_front();
    }
  }

 private:
  void push(const Report& report) {
    // One that does not fit into a packet cannot be: its texts are bounded where they are made.
    if (auto packet = encode(report)) waiting_.push_back(std::move(*packet));
  }
  bool has_next() {
    while (waiting_.empty() && !beyond_.is_empty()) push(beyond_.take());
    return !waiting_.empty();
  }

  Fire drain() {
    is_draining_ = true;
    while (has_next()) {
      const ::sallyport::Status sent = os::send_packet(socket_.fd(), waiting_.front(), {}, MSG_DONTWAIT);
      if (!sent && sent.error().code == Code::unavailable) {
        if (!co_await socket_.writable()) break;
        continue;
      }
      waiting_.pop_front();
    }
    is_draining_ = false;
  }

  ipc::Watch& socket_;
  std::deque<Bytes> waiting_;
  Sums beyond_;
  bool is_draining_ = false;
};

Fire listen(ipc::Loop& loop, ipc::Watch& socket, Proxy& proxy, const Log& log) {
  wire::Decoder decoder;
  while (co_await socket.readable()) {
    auto packet = os::receive_packet(socket.fd(), MSG_DONTWAIT);
    if (!packet && packet.error().code == Code::unavailable) continue;
    if (!packet || packet->bytes.empty()) break;
    auto order = decode_order(decoder, packet->bytes.view());
    if (!order) {
      // An order that is not understood may have been a restriction: nothing is served on the strength of the old one.
      log.error("the egress proxy was told something that it does not understand",
                {{"error", order.error().describe()}});
      break;
    }
    if (auto* serve = std::get_if<Serve>(&*order)) {
      const std::string container = serve->container;
      const Status served =
          proxy.serve(std::move(*serve), packet->fds.empty() ? UniqueFd() : std::move(packet->fds.front()));
      if (!served)
        log.error("cannot serve a container", {{"container", container}, {"error", served.error().describe()}});
    } else if (auto* update = std::get_if<Update>(&*order)) {
      proxy.update(std::move(*update));
    } else if (auto* stop = std::get_if<Stop>(&*order)) {
      proxy.stop(stop->container);
    }
  }
  loop.stop();
}

}  // namespace

int run_proxy(UniqueFd socket, const std::string& hosts_file) {
  const SystemClock clock;
  const Log log(STDERR_FILENO, LogFormat::text, LogLevel::error, clock);
  ::signal(SIGPIPE, SIG_IGN);
  ::setenv("RES_OPTIONS", kResolverOptions, 0);
  os::raise_open_files_limit();
  give_up_rights(log);
  ipc::Loop loop;
  ipc::Sessions sessions(loop, log, {});
  ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  auto watch = ipc::Watch::open(loop, std::move(socket));
  if (!watch) return 1;
  Resolver resolver(loop, hosts_file);
  Reporter reporter(**watch);
  Proxy proxy(sessions, resolver, [&reporter](const Report& report) { reporter.send(report); });
  listen(loop, **watch, proxy, log);
  loop.run();
  // Every connection ends, and is reported; what the resolver's threads are still asking is of no interest.
  loop.settle();
  proxy.finish();
  reporter.finish();
  ::_exit(0);
}

}  // namespace sallyport::egress

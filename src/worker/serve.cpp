#include "worker/serve.h"

#include <malloc.h>

#include <chrono>
#include <csignal>

#include "worker/channel.h"
#include "worker/limits.h"

namespace sallyport::worker {
namespace {

// The result is written straight into its frame; what an error leaves of it is taken back. The frame has a
// buffer of its own, because the channel may have other things to send meanwhile.
void answer(const wire::Message& request, SteadyTime now, const Service& service, const Log& log, Channel& channel,
            Bytes& reply) {
  const auto budget = request.deadline_ms ? std::chrono::milliseconds(*request.deadline_ms) : kDefaultDeadline;
  Stop stop(now, budget);
  stop.on_poll([&] { channel.look(stop); });
  wire::ResultFrame frame(reply, request.id);
  auto done = channel.is_cancelled() ? Status(Error::make(Code::cancelled, "cancelled"))
                                     : service.handle(request.method, {request.params, stop, frame.json(), &channel});
  if (done) done = frame.finish();
  if (done) return;
  reply.clear();
  wire::append_error(reply, request.id, done.error());
  log.info("request refused", {{"id", request.id}, {"method", request.method}, {"why", done.error().describe()}});
}

}  // namespace

Status serve(UniqueFd socket, const Service& service, const Log& log) {
  // A write beyond the limit on file sizes is an error to answer with, not the end of the worker.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // Replies of some 100 KiB come and go: to give their memory back after each would cost more than they do.
  ::mallopt(M_MMAP_THRESHOLD, kKeptBytes);
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytes);
  Channel channel(std::move(socket));
  Bytes reply;
  while (true) {
    TRY(std::optional<wire::Message> request, channel.next_request());
    if (!request) return ok();
    const bool is_last = request->method == "worker.shutdown";
    const auto start = std::chrono::steady_clock::now();
    answer(*request, start, service, log, channel, reply);
    TRY(channel.send(reply));
    channel.finish(std::move(*request));
    if (is_last) return channel.drain();
    // What a long search freed goes back to the system; after a short one asking would cost more than it gives.
    if (std::chrono::steady_clock::now() - start > kLongRequest) ::malloc_trim(0);
  }
}

}  // namespace sallyport::worker

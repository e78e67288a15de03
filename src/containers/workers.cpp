#include "containers/workers.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "os/sockets.h"

namespace sallyport::containers {

Workers::~Workers() {
  // The end of its socket is the end of a worker.
  for (const auto& [id, slot] : slots_) {
    if (slot->session) slot->session->close();
  }
}

Task<Result<std::shared_ptr<ipc::Session>>> Workers::of(std::shared_ptr<Container> container) {
  if (container->state != State::running || container->handle == 0) {
    co_return Error::make(Code::unavailable, "the container has no file worker in its state");
  }
  auto& entry = slots_[container->id];
  if (!entry) {
    entry = std::make_shared<Slot>();
    container->on_end.emplace_back([this, id = container->id] { slots_.erase(id); });
  }
  const std::shared_ptr<Slot> slot = entry;
  if (!slot->session && slot->is_starting) {
    const auto ready = std::make_shared<ipc::OneShot<bool>>();
    slot->waiting.push_back(ready);
    co_await *ready;
  } else if (!slot->session) {
    slot->is_starting = true;
    const Status started = co_await start(container, slot);
    slot->is_starting = false;
    for (const auto& ready : std::exchange(slot->waiting, {})) ready->resolve(true);
    if (!started) co_return started.error();
  }
  if (!slot->session) co_return Error::make(Code::unavailable, "the file worker could not be started; try again");
  co_return slot->session;
}

Task<Status> Workers::start(std::shared_ptr<Container> container, std::shared_ptr<Slot> slot) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    co_return Error::from_errno("cannot make a socket pair", errno);
  }
  UniqueFd ours{ends[0]};
  UniqueFd theirs{ends[1]};
  os::enlarge_buffers(theirs.get());
  CO_TRY(const auto job, registry_.start_worker(*container, theirs.get()));
  theirs.reset();
  CO_TRY(co_await job->started);
  CO_TRY(slot->session,
         ipc::Session::open(sessions_, std::move(ours), UniqueFd(), wire::Side::connecting, "worker/" + container->id));
  listen(slot->session, slot);
  co_return ok();
}

// A worker only answers; a request from one is a fault of the worst kind, and is told so.
Fire Workers::listen(std::shared_ptr<ipc::Session> session, std::shared_ptr<Slot> slot) {
  while (co_await session->receive()) {
    while (const auto request = session->next_request()) {
      session->send_error(request->id, Error::make(Code::method_not_found, "no such method"));
    }
    session->end_turn();
  }
  session->close();
  if (slot->session == session) slot->session.reset();
}

}  // namespace sallyport::containers

#include "containers/workers.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "containers/waiting_line.h"
#include "os/sockets.h"

namespace sallyport::containers {
namespace {

// A worker does one request after the other. A few keep it busy; more would only be a queue that is fair to nobody: a
// caller may have to wait for all of them, and each may be a long search.
constexpr std::size_t kMostAtOnce = 4;
// Workers of a container that wait for one caller each.
constexpr std::size_t kMostAlone = 8;
// A worker that was sent away while a call waited for it is waited for again; one that dies at once is not.
constexpr int kMostStarts = 2;

bool is_of_a_run(const Container& container) {
  return container.state == State::running && container.handle == 0 && container.config.pod.empty();
}

bool is_serving(const Container& container) { return container.state == State::running && !is_of_a_run(container); }

Error unavailable(std::string_view why) { return Error::make(Code::unavailable, std::string(why)); }

}  // namespace

struct Workers::Places {
  std::size_t most;
  std::size_t taken = 0;
  WaitingLine line = {};

  bool has_room() const { return taken < most && line.is_empty(); }
};

struct Workers::Slot {
  explicit Slot(ipc::Loop& on) : loop(on) {}

  ipc::Loop& loop;
  std::shared_ptr<ipc::Session> session;
  std::vector<std::shared_ptr<ipc::Session>> retired;  // they still answer what they were asked, and nothing else
  bool is_starting = false;
  std::vector<std::shared_ptr<ipc::OneShot<bool>>> waiting;  // for the start that is under way
  Places shared{kMostAtOnce}, alone{kMostAlone};

  bool has_session() const { return session && !session->is_closed(); }
  Places& places(Pace pace) { return pace == Pace::callers ? alone : shared; }
};

Workers::~Workers() {
  // The end of its socket is the end of a worker.
  for (const auto& [id, slot] : slots_) {
    if (slot->session) slot->session->close();
    for (const auto& session : std::vector(slot->retired)) session->close();
  }
}

Workers::Turn::~Turn() {
  if (!slot_) return;
  if (pace_ == Pace::callers && session_) {
    std::erase(slot_->retired, session_);
    session_->close();
  }
  Places& places = slot_->places(pace_);
  const WaitingLine::Ticket next = places.line.next();
  if (!next) {
    --places.taken;
    return;
  }
  // Not from here: a line of calls that all fail at once would become as deep a stack.
  slot_->loop.post([slot = slot_, pace = pace_, next] {
    if (!next->is_resolved()) return next->resolve(true);
    const Turn passed_on(slot, pace);  // its taker gave up meanwhile
  });
}

void Workers::Turn::retire_worker() {
  if (slot_->session != session_) return;
  slot_->retired.push_back(std::exchange(slot_->session, nullptr));
}

std::shared_ptr<Workers::Slot> Workers::slot_of(const std::shared_ptr<Container>& container) {
  auto& slot = slots_[container->id];
  if (!slot) {
    slot = std::make_shared<Slot>(sessions_.loop());
    container->is_used = [weak = std::weak_ptr(slot)] {
      const auto used = weak.lock();
      return used && used->shared.taken + used->alone.taken > 0;
    };
    container->when_over([this, id = container->id] { slots_.erase(id); });
  }
  return slot;
}

Task<Result<Workers::Turn>> Workers::turn(ipc::Call& call, std::shared_ptr<Container> container, Pace pace) {
  if (is_of_a_run(*container)) {
    co_return Error::make(Code::unimplemented,
                          "a container that `sallyport run` made has no file worker: its files are its workspace's, "
                          "or use `sallyport container create`");
  }
  if (!is_serving(*container)) co_return unavailable("the container has no file worker in its state");
  container->last_activity = std::chrono::steady_clock::now();
  const std::shared_ptr<Slot> slot = slot_of(container);
  Places& places = slot->places(pace);
  if (places.has_room()) {
    ++places.taken;
  } else {
    const auto ticket = std::make_shared<ipc::OneShot<bool>>();
    places.line.join(&call.session(), ticket);
    call.on_cancel([ticket] { ticket->resolve(false); });
    const bool is_our_turn = co_await *ticket;
    call.on_cancel(nullptr);
    if (!is_our_turn) co_return Error::make(Code::cancelled, "given up before its turn came");
  }
  Turn turn(slot, pace);
  const auto worker = pace == Pace::callers ? std::make_shared<Slot>(slot->loop) : slot;
  const Status served = co_await await_session(container, worker);
  if (!served) co_return served.error();
  turn.session_ = worker->session;
  if (pace == Pace::callers) slot->retired.push_back(turn.session_);
  co_return std::move(turn);
}

// Until the slot has a session.
Task<Status> Workers::await_session(std::shared_ptr<Container> container, std::shared_ptr<Slot> slot) {
  for (int starts = 0; !slot->has_session(); ++starts) {
    if (!is_serving(*container)) co_return unavailable("the container ended");
    if (starts == kMostStarts) co_return unavailable("the file worker could not be started; try again");
    if (slot->is_starting) {
      const auto ready = std::make_shared<ipc::OneShot<bool>>();
      slot->waiting.push_back(ready);
      co_await *ready;
    } else {
      slot->is_starting = true;
      const Status started = co_await start(container, slot);
      slot->is_starting = false;
      // Behind whoever started it, who asked first.
      for (const auto& ready : std::exchange(slot->waiting, {})) {
        slot->loop.post([ready] { ready->resolve(true); });
      }
      if (!started) co_return started.error();
    }
  }
  co_return ok();
}

Task<Status> Workers::start(std::shared_ptr<Container> container, std::shared_ptr<Slot> slot) {
  if (!container->config.pod.empty()) {
    const Status started = co_await start_in_pod(container->config.pod, slot);
    co_return started;
  }
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
  slot->session->keep_results();
  listen(slot->session, slot);
  co_return ok();
}

// The connection to the pod's daemon becomes the worker's with the answer.
Task<Status> Workers::start_in_pod(std::string pod, std::shared_ptr<Slot> slot) {
  auto connected = co_await connect_pod_(pod);
  if (!connected) co_return unavailable("the pod cannot be reached: " + connected.error().message);
  const std::shared_ptr<ipc::Session> session = std::move(*connected);
  listen(session, slot);
  const auto answered = std::make_shared<ipc::OneShot<Result<wire::Message>>>();
  CO_TRY(session->request("pod.worker", "{}", std::nullopt,
                          [answered](Result<wire::Message> came) { answered->resolve(std::move(came)); }));
  const Result<wire::Message> answer = co_await *answered;
  if (!answer || answer->error) {
    session->close();
    co_return unavailable("the pod starts no file worker: " +
                          (answer ? answer->error->message : answer.error().message));
  }
  slot->session = session;
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
  // First of all: those who are told of its end may ask again at once.
  if (slot->session == session) slot->session.reset();
  std::erase(slot->retired, session);
  session->close();
}

}  // namespace sallyport::containers

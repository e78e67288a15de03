#include "handlers/container_exec.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace sallyport::handlers {
namespace {

using containers::Container;
using ipc::Call;
using ipc::Reply;
using wire::JsonWriter;

constexpr std::size_t kPipeBytes = 64U << 10;
constexpr std::size_t kMostInAPipe = 1U << 20;  // what an unprivileged process can make one hold
// After a command ended, its children may still hold its output: they are given this long to close it.
constexpr Millis kOutputGrace{250};

struct Pipe {
  UniqueFd read_end, write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("cannot make a pipe", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// From a command's pipe to the caller's stream, at the caller's pace.
struct Pump {
  std::unique_ptr<ipc::Watch> watch;
  ipc::OneShot<bool> done;
};

Fire pump_out(std::shared_ptr<Pump> pump, std::shared_ptr<ipc::OutStream> to) {
  Bytes block;
  block.resize(kPipeBytes);
  // When it is cancelled because the command has ended, what is in the pipe by then is still its output; what
  // others that it left behind add later is not.
  std::size_t left_after_the_end = kMostInAPipe;
  for (bool goes_on = true, is_over = false; goes_on && !is_over;) {
    goes_on = co_await pump->watch->readable();
    for (;;) {
      const ssize_t count = ::read(pump->watch->fd(), block.data(), block.size());
      if (count < 0 && errno == EINTR) continue;
      is_over = count == 0 || (count < 0 && errno != EAGAIN);
      if (count <= 0) break;
      const auto size = static_cast<std::size_t>(count);
      // A caller that does not want the output any more must not stop the command.
      [[maybe_unused]] const Status written = co_await to->write({block.data(), size});
      if (goes_on) break;
      if (size >= left_after_the_end) break;
      left_after_the_end -= size;
    }
  }
  to->finish();
  pump->done.resolve(true);
}

Fire pump_in(std::shared_ptr<ipc::InStream> from, std::shared_ptr<ipc::Watch> to) {
  for (;;) {
    auto piece = co_await from->read();
    if (!piece || piece->empty()) co_return;
    ByteView left = piece->view();
    while (!left.empty()) {
      const ssize_t count = ::write(to->fd(), left.data(), left.size());
      if (count > 0) {
        left = left.subspan(static_cast<std::size_t>(count));
      } else if (errno == EAGAIN) {
        const bool goes_on = co_await to->writable();
        if (!goes_on) co_return;
      } else if (errno != EINTR) {
        co_return;
      }
    }
  }
}

struct ExecPlumbing {
  sandbox::Command command;
  std::vector<UniqueFd> child_ends;
  std::array<std::shared_ptr<Pump>, 2> pumps;
  std::array<std::shared_ptr<ipc::OutStream>, 2> streams;
  std::shared_ptr<ipc::InStream> input;
  std::shared_ptr<ipc::Watch> input_pipe;
};

Result<ExecPlumbing> prepare_exec(Call& call, const Container& container) {
  ExecPlumbing plumbing;
  ipc::Loop& loop = call.session().shared().loop();
  plumbing.command.arguments = strings(call.params().get("command"));
  for (const std::string& word : plumbing.command.arguments) {
    if (word.find('\0') != std::string::npos) return Error::invalid_param("params.command", "holds a NUL");
  }
  plumbing.command.environment = container.environment;
  plumbing.command.directory = text(call.params().get("directory"));
  if (plumbing.command.directory.find('\0') != std::string::npos) {
    return Error::invalid_param("params.directory", "holds a NUL");
  }
  TRY(const auto variables, text_map(call.params().get("env"), "params.env", true));
  containers::set_pairs(plumbing.command.environment, variables);
  if (const wire::Value named = call.params().get("stdin")) {
    TRY(plumbing.input, call.take_stream(named, "params.stdin"));
    TRY(Pipe pipe, make_pipe());
    ::fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK);
    TRY(plumbing.input_pipe, ipc::Watch::open(loop, std::move(pipe.write_end)));
    plumbing.child_ends.push_back(std::move(pipe.read_end));
  } else {
    plumbing.child_ends.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  for (std::size_t i = 0; i < plumbing.pumps.size(); ++i) {
    TRY(Pipe pipe, make_pipe());
    ::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK);
    plumbing.pumps.at(i) = std::make_shared<Pump>();
    TRY(plumbing.pumps.at(i)->watch, ipc::Watch::open(loop, std::move(pipe.read_end)));
    TRY(plumbing.streams.at(i), call.open_stream());
    plumbing.child_ends.push_back(std::move(pipe.write_end));
  }
  for (const UniqueFd& fd : plumbing.child_ends) plumbing.command.fds.push_back(fd.get());
  return plumbing;
}

Result<std::shared_ptr<Container>> find_for_exec(Host& host, const RequestContext& context, wire::Value params) {
  const wire::Value named = params.get("container");
  if (context.principal.is_host()) {
    if (!named) return Error::invalid_param("params.container", "is missing");
    return find_container(host, params);
  }
  if (named) return Error::invalid_param("params.container", "is decided by the door");
  auto own = host.containers.find(context.container_id);
  if (!own) return Error::make(Code::not_found, "the container is gone");
  return own;
}

}  // namespace

Task<Reply> container_exec(const Permit&, Call& call, RequestContext& context, Host& host) {
  auto found = find_for_exec(host, context, call.params());
  if (!found) co_return std::move(found).error();
  const std::shared_ptr<Container> container = *found;
  auto plumbing = prepare_exec(call, *container);
  if (!plumbing) co_return std::move(plumbing).error();
  auto asked = host.containers.exec(*container, plumbing->command);
  if (!asked) co_return std::move(asked).error();
  const std::shared_ptr<containers::Job> job = *asked;
  plumbing->child_ends.clear();
  // Whoever gives up reads no more of the output: a stream that waited for credit would stay open for ever.
  call.on_cancel([&host, container, number = job->number, out = std::weak_ptr(plumbing->streams[0]),
                  err = std::weak_ptr(plumbing->streams[1])] {
    [[maybe_unused]] const Status killed = host.containers.signal(*container, number, SIGKILL);
    for (const auto& weak : {out, err}) {
      if (const auto stream = weak.lock()) stream->reset(Error::make(Code::cancelled, "the command was cancelled"));
    }
  });
  if (Status started = co_await job->started; !started) {
    started.error().message += ": " + plumbing->command.arguments.front();
    co_return std::move(started).error();
  }
  if (call.is_given_up()) co_return Error::make(Code::cancelled, "cancelled while the command started");
  call.session().send_event(call.message().id, "container.started", wire::to_json([&](JsonWriter& json) {
                              json.begin_object().member("job", job->number);
                              json.key("stdout").begin_object().member("$stream", plumbing->streams[0]->number());
                              json.end_object().key("stderr").begin_object();
                              json.member("$stream", plumbing->streams[1]->number()).end_object().end_object();
                            }));
  for (std::size_t i = 0; i < plumbing->pumps.size(); ++i) {
    pump_out(plumbing->pumps.at(i), std::move(plumbing->streams.at(i)));
  }
  // Only the pump keeps the pipe, so that its end is the end of the command's input.
  const std::weak_ptr<ipc::Watch> input_pipe = plumbing->input_pipe;
  if (plumbing->input) pump_in(plumbing->input, std::move(plumbing->input_pipe));
  const int status = co_await job->exited;
  // Nobody is there to read what may still come, or waits in the pipe.
  if (plumbing->input) {
    plumbing->input->fail(Error::make(Code::cancelled, "the command has ended"));
    if (const auto pipe = input_pipe.lock()) pipe->cancel();
  }
  ipc::Loop& loop = call.session().shared().loop();
  for (const auto& pump : plumbing->pumps) {
    const auto timer = loop.after(kOutputGrace, [pump] { pump->watch->cancel(); });
    co_await pump->done;
    loop.cancel(timer);
  }
  co_return call.result([&](JsonWriter& json) {
    json.begin_object().member("exit_code", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    if (WIFSIGNALED(status)) json.member("signal", WTERMSIG(status));
    json.end_object();
  });
}

}  // namespace sallyport::handlers

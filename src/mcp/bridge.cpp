#include "mcp/bridge.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "mcp/advice.h"
#include "mcp/exec_tool.h"
#include "mcp/file_tools.h"

namespace sallyport::mcp {
namespace {

std::string instructions(const PlaceOptions& place) {
  return "Files and commands of " + place.workspace +
         ", in a sandbox: nothing outside of it can be changed, keys and other secrets cannot be read, and every call "
         "is recorded. Paths may be relative to that directory. What is written anywhere else, such as in /tmp, is "
         "the sandbox's own and goes away with it." +
         (place.is_read_only ? " It is read-only." : "");
}

std::vector<Tool> describe_tools(const BridgeOptions& options) {
  std::vector<Tool> tools;
  for (const FileTool& tool : file_tools()) {
    if (options.place.is_read_only && !tool.is_read_only) continue;
    tools.push_back({std::string(tool.name), std::string(tool.title), std::string(tool.description),
                     input_schema(tool.arguments), std::string(tool.output_schema), tool.is_read_only,
                     tool.is_destructive, tool.is_idempotent});
  }
  if (options.with_exec) tools.push_back(exec_tool(options.place));
  return tools;
}

}  // namespace

Bridge::Bridge(Place::Connect connect, const BridgeOptions& options)
    : in_(options.in),
      out_(options.out),
      workspace_(options.place.workspace),
      tools_(describe_tools(options)),
      place_(std::move(connect), options.place),
      server_({"sallyport", "Sallyport", options.version, instructions(options.place)}, *this) {}

void Bridge::call(std::shared_ptr<ToolCall> call) {
  last_call_ = std::chrono::steady_clock::now();
  if (call->name() == "exec") {
    waiting_commands_.push_back(std::move(call));
    return start_commands();
  }
  const auto tools = file_tools();
  const auto tool =
      std::find_if(tools.begin(), tools.end(), [&](const auto& each) { return each.name == call->name(); });
  if (const Status checked = check_arguments(tool->arguments, *call); !checked) {
    return call->finish_text(true, explain(checked.error(), call->name(), workspace_));
  }
  if (auto operation = start_file_tool(*tool, std::move(call), place_, workspace_)) {
    operations_.push_back(std::move(operation));
  }
}

void Bridge::start_commands() {
  std::erase_if(commands_, [](const auto& command) { return command->is_over(); });
  while (!waiting_commands_.empty() && commands_.size() < kMaxCommands) {
    const std::shared_ptr<ToolCall> call = std::move(waiting_commands_.front());
    waiting_commands_.pop_front();
    if (call->is_over()) continue;  // cancelled meanwhile
    if (auto operation = start_exec(call, place_, workspace_)) {
      operations_.push_back(operation);
      commands_.push_back(std::move(operation));
    }
  }
}

Status Bridge::run() {
  ::signal(SIGPIPE, SIG_IGN);
  // Never waits for a client that does not read: it may be waiting for us to read.
  if (::isatty(out_) == 0) ::fcntl(out_, F_SETFL, ::fcntl(out_, F_GETFL) | O_NONBLOCK);
  // Most answers fit into it at once. Where it is no pipe, or the user has no more room, it stays as it is.
  ::fcntl(out_, F_SETPIPE_SZ, kPipeBytes);
  // While client and server agree on a revision the container is made.
  place_.open();
  for (;;) {
    Status placed = place_.turn(expects_answer() ? kAnswerWait : Millis(0));
    const SteadyTime next = turn_operations();
    write_output();
    if (!placed && !place_.has_been_ready()) return placed;
    const bool is_done = has_input_ended_ && operations_.empty() && server_.output().empty();
    if (is_client_gone_ || is_done) break;
    wait(next);
    read_input();
  }
  findings_ = place_.end(kFarewellWait);
  return ok();
}

SteadyTime Bridge::turn_operations() {
  // A client that does not read slows its commands down: their output is not taken.
  if (is_behind()) return SteadyTime::max();
  SteadyTime next = SteadyTime::max();
  const SteadyTime now = std::chrono::steady_clock::now();
  for (const auto& operation : std::vector(operations_)) next = std::min(next, operation->turn(now));
  std::erase_if(operations_, [](const auto& operation) { return operation->is_over(); });
  start_commands();
  for (const auto& call : waiting_commands_) next = std::min(next, call->beat(now));
  return next;
}

// Most calls are answered within a fraction of a millisecond: the connection itself waits for that, which is
// quicker than poll because it spins first; whatever the client says meanwhile can wait as long. Long ones are left to
// poll.
bool Bridge::expects_answer() const {
  return !operations_.empty() && !is_behind() && !has_input_ended_ &&
         std::chrono::steady_clock::now() < last_call_ + kHotTime;
}

void Bridge::wait(SteadyTime until) {
  // Somebody who only ended their input, like a pipe from printf, still reads. Once they do not, nothing that still
  // runs is of use to anybody.
  const bool wants_out = !server_.output().empty();
  std::array<pollfd, 3> events = {
      {{has_input_ended_ || is_behind() ? -1 : in_, POLLIN, 0},
       {wants_out || has_input_ended_ ? out_ : -1, static_cast<short>(wants_out ? POLLOUT : 0), 0},
       {is_behind() ? -1 : place_.fd(), POLLIN, 0}}};
  int timeout = -1;
  if (until != SteadyTime::max()) {
    const auto left = std::chrono::ceil<Millis>(until - std::chrono::steady_clock::now()).count();
    timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
  }
  spinner_.wait([&] { return ::poll(events.data(), events.size(), 0) != 0; },
                [&] { ::poll(events.data(), events.size(), timeout); });
  has_input_ = events[0].revents != 0;
  if (has_input_ended_ && (events[1].revents & (POLLERR | POLLHUP)) != 0) is_client_gone_ = true;
}

void Bridge::read_input() {
  if (has_input_ended_ || is_behind() || !std::exchange(has_input_, false)) return;
  const auto room = server_.input().writable();
  const ssize_t count = ::read(in_, room.data(), room.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) {
    has_input_ended_ = true;
    server_.input().feed(as_bytes("\n"));  // a last line may lack its end
  } else {
    server_.input().commit(static_cast<std::size_t>(count));
  }
  server_.handle_input();
}

void Bridge::write_output() {
  Bytes& output = server_.output();
  std::size_t sent = 0;
  while (sent < output.size()) {
    const ssize_t count = ::write(out_, output.data() + sent, output.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      is_client_gone_ = true;
      break;
    }
    sent += static_cast<std::size_t>(count);
  }
  if (sent > 0) output.erase_front(sent);
}

}  // namespace sallyport::mcp

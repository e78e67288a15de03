#include "scheduler/program.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>

#include "containers/launch_spec.h"
#include "ipc/oneshot.h"
#include "os/memory_file.h"
#include "os/spawn.h"

namespace sallyport::scheduler {
namespace {

// What the program left running may hold its output open: it is waited for this long.
constexpr Millis kOutputGrace{250};
constexpr std::size_t kReadBytes = 64U << 10;

struct Pipe {
  std::unique_ptr<ipc::Watch> watch;
  UniqueFd child_end;
  ipc::OneShot<bool> done;
};

Result<UniqueFd> input_file(const std::string& input) {
  if (input.empty()) return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return os::sealed_file(input);
}

Result<std::shared_ptr<Pipe>> open_pipe(ipc::Loop& loop) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("cannot make a pipe", errno);
  const auto pipe = std::make_shared<Pipe>();
  UniqueFd read_end{ends[0]};
  pipe->child_end = UniqueFd(ends[1]);
  ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  TRY(pipe->watch, ipc::Watch::open(loop, std::move(read_end)));
  return pipe;
}

Result<pid_t> spawn(const Program& program, int in, int out, int err) {
  os::SpawnPlan plan(os::SpawnPlan::Place::own_session);
  plan.give(in, STDIN_FILENO);
  plan.give(out, STDOUT_FILENO);
  plan.give(err, STDERR_FILENO);
  plan.close_from(STDERR_FILENO + 1);
  plan.start_in(program.directory.c_str());
  std::vector<std::string> variables = program.environment;
  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  return plan.spawn(program.arguments.at(0), program.arguments, environment.data());
}

// `end` is kept as long as its ring is written to.
Fire collect(std::shared_ptr<Pipe> pipe, std::shared_ptr<ProgramEnd> end, containers::LogRing ProgramEnd::* ring) {
  std::string block(kReadBytes, '\0');
  while (co_await pipe->watch->readable()) {
    const ssize_t count = ::read(pipe->watch->fd(), block.data(), block.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) break;
    ((*end).*ring).append({block.data(), static_cast<std::size_t>(count)});
  }
  pipe->done.resolve(true);
}

}  // namespace

int ProgramEnd::exit_code() const {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::string_view ProgramEnd::last_words() const {
  constexpr std::size_t kMost = 1024;
  const std::string_view all = err.tail();
  return all.substr(all.size() - std::min(all.size(), kMost));
}

std::vector<std::string> plain_environment() {
  return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + containers::host_home(),
          "LANG=C.UTF-8"};
}

Task<Result<ProgramEnd>> run_program(ipc::Loop& loop, Program program) {
  CO_TRY(const std::shared_ptr<Pipe> out, open_pipe(loop));
  CO_TRY(const std::shared_ptr<Pipe> err, open_pipe(loop));
  pid_t pid = -1;
  {
    CO_TRY(const UniqueFd input, input_file(program.input));
    CO_TRY(pid, spawn(program, input.get(), out->child_end.get(), err->child_end.get()));
  }
  out->child_end.reset();
  err->child_end.reset();
  const auto end = std::make_shared<ProgramEnd>();
  collect(out, end, &ProgramEnd::out);
  collect(err, end, &ProgramEnd::err);
  // A child of ours that was not waited for keeps its pid: nobody else can be meant.
  const auto kill_group = [pid] { ::kill(-pid, SIGKILL); };
  auto exited = ipc::Watch::open(loop, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
  const auto timer = loop.after(program.timeout, [end, kill_group] {
    end->was_over_time = true;
    kill_group();
  });
  const bool has_exited = exited && co_await (*exited)->readable();
  loop.cancel(timer);
  if (!has_exited) kill_group();
  while (::waitpid(pid, &end->wait_status, 0) < 0 && errno == EINTR) {
  }
  for (const auto& pipe : {out, err}) {
    const auto grace = loop.after(kOutputGrace, [pipe] { pipe->watch->cancel(); });
    co_await pipe->done;
    loop.cancel(grace);
  }
  if (!has_exited) co_return Error::make(Code::unavailable, "the warden stopped before the program ended");
  co_return std::move(*end);
}

}  // namespace sallyport::scheduler

#include "scheduler/program.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "containers/launch_spec.h"
#include "ipc/oneshot.h"
#include "os/files.h"
#include "os/memory_file.h"
#include "os/process.h"
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

// That a program runs, for whoever comes after us. Goes with it.
class Note {
 public:
  Note(const std::string& directory, pid_t pid) : path_(directory + "/" + std::to_string(pid)) {
    const auto started = os::process_start_time(pid);
    const auto boot = os::boot_id();
    if (directory.empty() || !started || !boot || !os::open_private_directory(directory)) return;
    is_written_ =
        os::write_private_file(path_, std::to_string(*started) + " " + *boot, os::Durability::unsynced).has_value();
  }
  ~Note() {
    if (is_written_) ::unlink(path_.c_str());
  }
  Note(const Note&) = delete;
  Note& operator=(const Note&) = delete;
  bool is_written() const { return is_written_; }

 private:
  std::string path_;
  bool is_written_ = false;
};

// Whether the session that this note is about may still be the same one: its number is not given to another process as
// long as one of the session lives, and its leader, if there is one, must be who it was.
bool is_still_meant(const std::string& note, pid_t leader) {
  const std::size_t space = note.find(' ');
  const auto boot = os::boot_id();
  if (space == std::string::npos || !boot || note.substr(space + 1) != *boot) return false;
  const auto started = os::process_start_time(leader);
  return !started || std::to_string(*started) == note.substr(0, space);
}

// Zombies do not count: they run no more.
std::vector<pid_t> processes_of(pid_t session) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto pid = static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    if (pid <= 0 || ::getsid(pid) != session) continue;
    std::ifstream stat(entry.path() / "stat");
    const std::string line(std::istreambuf_iterator<char>(stat), {});
    const std::size_t name_end = line.rfind(") ");
    if (name_end != std::string::npos && line[name_end + 2] != 'Z') found.push_back(pid);
  }
  return found;
}

}  // namespace

std::size_t end_strays(const std::string& programs_dir) {
  constexpr int kRounds = 100;  // what is killed may have started another meanwhile
  constexpr std::size_t kMaxNoteBytes = 256;
  std::size_t count = 0;
  std::error_code ignored;
  std::vector<std::filesystem::path> notes;
  for (const auto& entry : std::filesystem::directory_iterator(programs_dir, ignored)) notes.push_back(entry.path());
  for (const auto& path : notes) {
    const auto leader = static_cast<pid_t>(std::atoi(path.filename().c_str()));
    const auto note = os::read_private_file(path, kMaxNoteBytes);
    if (leader > 1 && note && is_still_meant(*note, leader)) {
      for (int round = 0; round < kRounds; ++round) {
        const std::vector<pid_t> processes = processes_of(leader);
        if (processes.empty()) break;
        if (round == 0) count += processes.size();
        for (const pid_t pid : processes) ::kill(pid, SIGKILL);
        ::usleep(1000);
      }
    }
    ::unlink(path.c_str());
  }
  return count;
}

int ProgramEnd::exit_code() const {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

std::string_view ProgramEnd::last_words() const {
  constexpr std::size_t kMost = 1024;
  const std::string_view all = err.tail();
  return all.substr(all.size() - std::min(all.size(), kMost));
}

std::vector<std::string> plain_environment() {
  return {std::string("PATH=") + containers::kSystemPath, "HOME=" + containers::host_home(), "LANG=C.UTF-8"};
}

Task<Result<ProgramEnd>> run_program(ipc::Loop& loop, Program program, std::string programs_dir) {
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
  const Note note(programs_dir, pid);
  if (!programs_dir.empty() && !note.is_written()) kill_group();
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

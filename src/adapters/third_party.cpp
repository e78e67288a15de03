#include "adapters/third_party.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "adapters/credentials.h"
#include "os/files.h"
#include "os/sockets.h"
#include "platform/limits.h"
#include "wire/crypto.h"

namespace sallyport::adapters {
namespace {

constexpr std::size_t kMaxProgramBytes = 64U << 20;
constexpr Millis kGreetTimeout{10'000};
// After it missed a deadline: time to notice that the call was given up.
constexpr Millis kGrace{2'000};
constexpr std::uint32_t kJob = 1;

// What it needs to run at all: system programs and libraries to read. No workspace, home, door or network.
sandbox::Spec make_spec(const std::string& name, const std::string& copy, const std::string& inside) {
  sandbox::Spec spec;
  spec.name = "adapter-" + name;
  spec.environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"};
  spec.read = {"/usr", "/etc"};
  spec.deny = {"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssl/private", "/etc/ssh"};
  spec.exec = {"/usr", inside};
  spec.binds.push_back({copy, inside, false, true});
  spec.limits.memory_bytes = 1ULL << 30;
  spec.limits.processes = 64;
  spec.limits.scratch_bytes = 64ULL << 20;
  spec.protect_workspace = false;
  return spec;
}

}  // namespace

// ---- sandboxes ----

Status Sandboxes::open() {
  if (launcher_) return ok();
  TRY(launcher_, containers::LauncherLink::start(
                     loop_, log_, [this](sandbox::FromLauncher notice, std::vector<UniqueFd>) { on_notice(notice); },
                     [this] {
                       for (const auto& [handle, starting] : std::exchange(starting_, {})) {
                         starting->launched.resolve(backend_down("the launcher died"));
                         starting->started.resolve(backend_down("the launcher died"));
                       }
                     }));
  return ok();
}

void Sandboxes::on_notice(const sandbox::FromLauncher& notice) {
  const sandbox::Handle handle = std::visit([](const auto& message) { return message.container; }, notice);
  const auto found = starting_.find(handle);
  if (found == starting_.end()) return;
  const std::shared_ptr<Starting> starting = found->second;
  if (std::holds_alternative<sandbox::Launched>(notice)) {
    starting->launched.resolve(ok());
  } else if (std::holds_alternative<sandbox::JobStarted>(notice)) {
    starting->started.resolve(ok());
  } else if (const auto* failed = std::get_if<sandbox::LaunchFailed>(&notice)) {
    const Error error = backend_down(failed->message + " " + failed->detail);
    starting->launched.resolve(error);
    starting->started.resolve(error);
  } else if (std::holds_alternative<sandbox::Ended>(notice)) {
    starting->launched.resolve(backend_down("it ended at once"));
    starting->started.resolve(backend_down("it ended at once"));
  }
}

Task<Result<sandbox::Handle>> Sandboxes::start(sandbox::Spec spec, std::string program, int socket) {
  CO_TRY(open());
  const sandbox::Handle handle = ++last_;
  const auto starting = std::make_shared<Starting>();
  starting_[handle] = starting;
  const UniqueFd nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  const std::vector<int> quiet(3, nothing.get());
  std::vector<int> with_socket = quiet;
  with_socket.push_back(socket);
  sandbox::ExecRequest exec;
  exec.container = handle;
  exec.job = kJob;
  exec.arguments.push_back(std::move(program));
  exec.environment = spec.environment;
  Status status = launcher_->send(sandbox::LaunchRequest{handle, std::move(spec)}, quiet);
  if (status) status = co_await starting->launched;
  if (status) status = launcher_->send(exec, with_socket);
  if (status) status = co_await starting->started;
  starting_.erase(handle);
  if (!status) {
    kill(handle);
    co_return std::move(status).error();
  }
  co_return handle;
}

void Sandboxes::kill(sandbox::Handle handle) {
  if (launcher_) [[maybe_unused]]
    const Status sent = launcher_->send(sandbox::KillRequest{handle});
}

// ---- one program ----

ThirdParty::ThirdParty(std::string name, const platform::Config& config, Machinery& machinery,
                       std::shared_ptr<Sandboxes> sandboxes)
    : name_(std::move(name)), config_(config), machinery_(machinery), sandboxes_(std::move(sandboxes)) {}

Result<std::string> ThirdParty::pinned_copy() const {
  const platform::ThirdParty& party = config_.third_party.at(name_);
  TRY(const std::string program, os::read_small_file(party.path, kMaxProgramBytes));
  if (to_hex(wire::sha256(as_bytes(program))) != party.sha256) {
    return Error::make(Code::policy_denied, "the adapter is not what was pinned", party.path + " has another sha256");
  }
  // What was hashed is what runs: the original may be replaced at any time.
  const std::string directory = machinery_.state_dir + "/third_party";
  TRY(const UniqueFd opened, os::open_private_directory(directory));
  const std::string copy = directory + "/" + party.sha256;
  TRY(os::write_private_file(copy, program));
  if (::fchmodat(opened.get(), party.sha256.c_str(), 0500, 0) != 0) return Error::from_errno("cannot pin", errno);
  return copy;
}

Task<Result<std::shared_ptr<ipc::Session>>> ThirdParty::session() {
  const auto self = shared_from_this();
  if (session_ && !is_starting_) co_return session_;
  Status started = ok();
  if (is_starting_) {
    const auto ready = std::make_shared<ipc::OneShot<Status>>();
    waiting_.push_back(ready);
    started = co_await *ready;
  } else {
    is_starting_ = true;
    started = co_await start();
    is_starting_ = false;
    for (const auto& ready : std::exchange(waiting_, {})) ready->resolve(started);
  }
  CO_TRY(started);
  if (!session_) co_return backend_down(name_ + " ended while it started");
  co_return session_;
}

Task<Status> ThirdParty::start() {
  CO_TRY(const std::string copy, pinned_copy());
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    co_return Error::from_errno("cannot make a socket pair", errno);
  }
  UniqueFd ours{ends[0]};
  UniqueFd theirs{ends[1]};
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  os::enlarge_buffers(theirs.get());
  const std::string inside = "/run/adapter/" + name_;
  CO_TRY(const sandbox::Handle handle,
         co_await sandboxes_->start(make_spec(name_, copy, inside), inside, theirs.get()));
  theirs.reset();
  CO_TRY(const auto session, ipc::Session::open(machinery_.sessions, std::move(ours), UniqueFd(),
                                                wire::Side::connecting, "third-party/" + name_));
  listen(session, handle);
  if (Status greeted = co_await greet(session); !greeted) {
    session->close();
    co_return greeted;
  }
  session_ = session;
  handle_ = handle;
  co_return ok();
}

Task<Status> ThirdParty::greet(std::shared_ptr<ipc::Session> session) {
  const platform::ThirdParty& party = config_.third_party.at(name_);
  std::string secret;
  if (!party.credential.empty()) {
    CO_TRY(secret, read_credential(config_, party.credential));
  }
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("protocol", platform::kProtocolVersion).key("roles").begin_array();
    for (const std::string& role : party.roles) json.value(role);
    json.end_array();
    if (!secret.empty()) json.member("credential", secret);
    json.end_object();
  });
  const auto answered = std::make_shared<ipc::OneShot<Result<wire::Message>>>();
  CO_TRY(session->request("adapter.init", params, {},
                          [answered](Result<wire::Message> answer) { answered->resolve(std::move(answer)); }));
  ipc::Loop& loop = machinery_.sessions.loop();
  const auto timer = loop.after(kGreetTimeout, [answered] { answered->resolve(backend_down("no greeting in time")); });
  auto answer = co_await *answered;
  loop.cancel(timer);
  if (!answer) co_return std::move(answer).error();
  if (answer->error) co_return backend_down(answer->error->message);
  if (answer->result.get("protocol").as_int() != platform::kProtocolVersion) {
    co_return Error::make(Code::conflict, "the adapter speaks another version of the protocol", name_);
  }
  co_return ok();
}

// It only answers. What else it says is refused; its end is the end of its sandbox.
Fire ThirdParty::listen(std::shared_ptr<ipc::Session> session, sandbox::Handle handle) {
  const auto self = shared_from_this();
  while (co_await session->receive()) {
    while (const auto request = session->next_request()) {
      session->send_error(request->id, Error::make(Code::method_not_found, "no such method"));
    }
    session->end_turn();
  }
  session->close();
  if (session_ == session) {
    session_.reset();
    machinery_.log.warn("a third-party adapter ended; the next call starts it again", {{"adapter", name_}});
  }
  sandboxes_->kill(handle);
}

void ThirdParty::kill() {
  if (handle_ != 0) sandboxes_->kill(std::exchange(handle_, 0));
  if (const auto session = std::exchange(session_, nullptr)) session->close();
}

namespace {

class ThirdPartyAdapter final : public Adapter {
 public:
  ThirdPartyAdapter(platform::Role role, std::shared_ptr<ThirdParty> party, Machinery& machinery)
      : role_(role), party_(std::move(party)), machinery_(machinery) {}

  Task<Status> probe() override {
    CO_TRY(co_await party_->session());
    co_return ok();
  }

  void describe(wire::JsonWriter& json) const override { json.member("is_third_party", true); }

  Task<ipc::Reply> handle(std::string_view verb, ipc::Call& call) override {
    CO_TRY(const std::shared_ptr<ipc::Session> session, co_await party_->session());
    CO_TRY(const std::string params, ipc::forward_params(call, *session, {}));
    const std::string method = std::string(platform::to_string(role_)) + "." + std::string(verb);
    // One that misses deadlines holds calls for ever: it is ended, and started again by the next one.
    const auto deadline = platform::find_operation(method)->timeout;
    ipc::Loop& loop = machinery_.sessions.loop();
    ipc::Loop::TimerId timer = 0;
    if (deadline.count() > 0) {
      timer = loop.after(deadline + kGrace, [party = party_] { party->kill(); });
    }
    auto answer = co_await ipc::ask(call, session, method, params, true);
    if (timer != 0) loop.cancel(timer);
    if (!answer) co_return backend_down("the adapter ended");
    if (!answer->error && !answer->result.is_object()) co_return backend_down("the adapter answered without an object");
    co_return ipc::forward_result(call, *session, *answer);
  }

 private:
  platform::Role role_;
  std::shared_ptr<ThirdParty> party_;
  Machinery& machinery_;
};

}  // namespace

std::unique_ptr<Adapter> make_third_party(platform::Role role, std::shared_ptr<ThirdParty> party,
                                          Machinery& machinery) {
  return std::make_unique<ThirdPartyAdapter>(role, std::move(party), machinery);
}

}  // namespace sallyport::adapters

#include "adapters/third_party.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <set>

#include "adapters/credentials.h"
#include "egress/link.h"
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
constexpr std::size_t kMostLoggedBytes = 200;

struct Sentence {
  Code code;
  const char* text;
};
// Who may do what is for the host to say, and not for an adapter: those codes are not here.
constexpr Sentence kSentences[] = {
    {Code::invalid_params, "the adapter refuses the request"},
    {Code::payload_too_large, "the adapter takes less at once"},
    {Code::rate_limited, "the adapter wants fewer requests; try again later"},
    {Code::not_found, "the adapter does not have it"},
    {Code::conflict, "the adapter has something else there"},
    {Code::io_error, "the adapter broke off"},
    {Code::timeout, "the adapter ran out of time"},
    {Code::cancelled, "the adapter gave it up"},
    {Code::unavailable, "the adapter cannot do it now; try again"},
    {Code::unimplemented, "the adapter cannot do that"},
    {Code::method_not_found, "the adapter cannot do that"},
};

}  // namespace

ThirdParty::ThirdParty(std::string name, const platform::Config& config, Machinery& machinery,
                       std::shared_ptr<containers::Cells> cells)
    : name_(std::move(name)), config_(config), machinery_(machinery), cells_(std::move(cells)) {}

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
  const UniqueFd nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  containers::Cells::Command command;
  command.argv.push_back(copy);
  command.readable.push_back(copy);
  command.fds.assign(3, nothing.get());
  command.fds.push_back(theirs.get());
  command.lifetime = Millis(0);
  if (!config_.third_party.at(name_).hosts.empty()) {
    command.on_proxy_listener = [weak = weak_from_this()](UniqueFd listener) {
      if (const auto self = weak.lock()) self->serve_proxy(std::move(listener));
    };
  }
  CO_TRY(cell_, cells_->start(command));
  theirs.reset();
  CO_TRY(const auto session, ipc::Session::open(machinery_.sessions, std::move(ours), UniqueFd(),
                                                wire::Side::connecting, "third-party/" + name_));
  listen(session);
  Status greeted = co_await greet(session);
  if (!greeted) {
    session->close();
    drop_cell();
    co_return greeted;
  }
  session_ = session;
  co_return ok();
}

Task<Status> ThirdParty::greet(std::shared_ptr<ipc::Session> session) {
  const platform::ThirdParty& party = config_.third_party.at(name_);
  if (!party.credential.empty()) {
    CO_TRY(secret_, read_credential(config_, party.credential));
  }
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("protocol", platform::kProtocolVersion).key("roles").begin_array();
    for (const std::string& role : party.roles) json.value(role);
    json.end_array();
    if (!secret_.empty()) json.member("credential", secret_);
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
  if (answer->error) co_return backend_down(translate(*answer->error).describe());
  if (answer->result.get("protocol").as_int() != platform::kProtocolVersion) {
    co_return Error::make(Code::conflict, "the adapter speaks another version of the protocol", name_);
  }
  std::set<std::string> has;
  for (const wire::Value role : answer->result.get("roles").items()) has.emplace(role.as_string().value_or(""));
  for (const std::string& role : party.roles) {
    if (!has.contains(role))
      co_return Error::make(Code::conflict, "the adapter does not say that it has its role", role);
  }
  co_return ok();
}

// It only answers. What else it says is refused; its end is the end of its sandbox.
Fire ThirdParty::listen(std::shared_ptr<ipc::Session> session) {
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
    drop_cell();
    machinery_.log.warn("a third-party adapter ended; the next call starts it again", {{"adapter", name_}});
  }
}

void ThirdParty::serve_proxy(UniqueFd listener) {
  const auto policy = policy::NetPolicy::make(config_.third_party.at(name_).hosts, {}, {});
  const Status served =
      !policy ? Status(policy.error()) : machinery_.egress->serve(name_, std::move(listener), *policy);
  // It then has no network, and whatever it needs that for fails.
  if (!served) {
    machinery_.log.error("a third-party adapter has no network",
                         {{"adapter", name_}, {"error", served.error().describe()}});
  }
}

void ThirdParty::drop_cell() {
  cell_.reset();
  if (machinery_.egress) machinery_.egress->stop(name_);
}

Error ThirdParty::translate(const Error& said) const {
  const bool is_safe = secret_.empty() || said.message.find(secret_) == std::string::npos;
  const std::string words =
      is_safe ? escape_for_display(said.message.substr(0, kMostLoggedBytes)) : std::string("(holds its credential)");
  const std::string detail = name_ + " says " + std::string(to_string(said.code)) + ": " + words;
  for (const Sentence& sentence : kSentences) {
    if (sentence.code == said.code) return Error::make(said.code, sentence.text, detail);
  }
  return backend_down(detail);
}

void ThirdParty::kill() {
  drop_cell();
  if (const auto session = std::exchange(session_, nullptr)) session->close();
}

namespace {

Error broken_off(std::string detail) {
  Error error = Error::make(Code::io_error, "the adapter broke off; try again", std::move(detail));
  error.details_json = R"({"errno":"EIO"})";
  error.retryable = true;
  return error;
}

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
    ipc::Asking asking(call, session, method, params, ipc::Events::relayed);
    auto& answer = co_await asking;
    if (timer != 0) loop.cancel(timer);
    // It had the request: nobody knows what became of it.
    if (!answer) co_return broken_off("the adapter ended");
    if (answer->error) co_return party_->translate(*answer->error);
    if (!answer->result.is_object()) co_return broken_off("the adapter answered without an object");
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

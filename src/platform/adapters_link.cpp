#include "platform/adapters_link.h"

#include <unistd.h>

#include <cstring>
#include <set>

#include "platform/limits.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace sallyport::platform {
namespace {

// They ask no backend before they answer.
constexpr Millis kConfigureTimeout{10'000};
// How often they are asked whether they still answer, while somebody calls them, and how long they may take to.
constexpr Millis kAskAgain{5'000};
constexpr Millis kSilence{10'000};

Error unavailable(const Error& why) {
  Error error = Error::make(Code::unavailable, "the adapters are not there; try again", why.describe());
  error.retryable = true;
  return error;
}

// Of our own environment only the variables that credentials name, handed on without being looked into.
std::vector<char*> named_variables(const Config& config) {
  std::set<std::string> names;
  for (const auto& [name, credential] : config.credentials) names.insert(credential.from_env);
  std::vector<char*> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals != nullptr && names.contains(std::string(*entry, static_cast<std::size_t>(equals - *entry))))
      variables.push_back(*entry);
  }
  return variables;
}

}  // namespace

void AdaptersLink::set_config(Config config) {
  config_ = std::move(config);
  if (std::string hash = hash_of(config_); std::exchange(config_hash_, hash) != hash) close();
}

void AdaptersLink::close() {
  // The end of its socket is its end.
  if (const auto session = std::exchange(session_, nullptr)) session->close();
}

Task<Result<std::shared_ptr<ipc::Session>>> AdaptersLink::session() {
  if (!session_ || is_starting_) return start();
  watch();
  return Task<Result<std::shared_ptr<ipc::Session>>>::ready(session_);
}

Task<Result<std::shared_ptr<ipc::Session>>> AdaptersLink::start() {
  Status started = ok();
  if (is_starting_) {
    const auto ready = std::make_shared<ipc::OneShot<Status>>();
    waiting_.push_back(ready);
    started = co_await *ready;
  } else {
    is_starting_ = true;
    started = spawn();
    if (started) started = co_await configure(session_);
    is_starting_ = false;
    if (!started) close();
    for (const auto& ready : std::exchange(waiting_, {})) ready->resolve(started);
  }
  if (!started) co_return unavailable(started.error());
  if (!session_) co_return unavailable(Error::make(Code::unavailable, "they ended while they started"));
  co_return session_;
}

Status AdaptersLink::spawn() {
  TRY(os::Spawned spawned, os::spawn_helper("sallyport-adapters", {.environment = named_variables(config_),
                                                                   .socket_type = SOCK_STREAM | SOCK_NONBLOCK}));
  pid_ = spawned.child.pid();
  auto session =
      ipc::Session::open(sessions_, std::move(spawned.socket), UniqueFd(), wire::Side::connecting, "adapters");
  if (!session) return std::move(session).error();
  session_ = *session;
  // Answers must always be read, however much is on its way out: else both sides could wait for each other.
  session_->set_capacity({.unsent_bytes = SIZE_MAX, .streams = kLinkStreams});
  session_->keep_results();
  session_->on_event([this, session = session_.get()](const wire::Message& event) {
    if (!event.id.empty()) return;  // of a request that hears of none, or is over: a third party may have said it
    if (event.method == "adapters.connection" && place_.on_connection) place_.on_connection(event.params);
    if (event.method == "events.message") tell_subscribers(*session, event);
  });
  listen(session_, std::move(spawned.child));
  return ok();
}

void AdaptersLink::tell_subscribers(ipc::Session& session, const wire::Message& event) {
  const auto told = sessions_.decoder().parse(wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("topic", event.params.get("topic"));
    json.member("payload", event.params.get("payload")).end_object();
  }));
  if (!told) return;
  wire::Message message;
  message.type = wire::MessageType::event;
  message.method = event.method;
  message.params = told->root();
  for (const wire::Value id : event.params.get("to").items()) session.deliver(id.as_string().value_or(""), message);
}

Task<Status> AdaptersLink::configure(std::shared_ptr<ipc::Session> session) {
  const auto answered = std::make_shared<ipc::OneShot<Result<wire::Message>>>();
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("protocol", kProtocolVersion).member("state_dir", place_.state_dir);
    json.member("egress_hosts", place_.egress_hosts);
    json.key("config").raw(to_json(config_)).end_object();
  });
  CO_TRY(session->request("adapters.configure", params, {},
                          [answered](Result<wire::Message> answer) { answered->resolve(std::move(answer)); }));
  const auto timer = sessions_.loop().after(kConfigureTimeout, [answered] {
    answered->resolve(Error::make(Code::unavailable, "they did not take their configuration in time"));
  });
  auto answer = co_await *answered;
  sessions_.loop().cancel(timer);
  if (!answer) co_return std::move(answer).error();
  if (answer->error) co_return *answer->error;
  co_return ok();
}

void AdaptersLink::watch() {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (watchdog_ != 0 || now - asked_at_ < kAskAgain) return;
  asked_at_ = now;
  watchdog_ = sessions_.loop().after(kSilence, [this] {
    watchdog_ = 0;
    sessions_.log().error("the adapters do not answer; the next call starts them again", {{"pid", pid_}});
    close();
  });
  const auto answered = [this] {
    if (watchdog_ != 0) sessions_.loop().cancel(std::exchange(watchdog_, 0));
  };
  // The end of the session is an answer too: nothing here outlives it.
  const auto asked = session_->request("adapters.ping", "{}", {}, [answered](const auto&) { answered(); });
  if (!asked) answered();
}

// The adapters only answer; a request from them is a fault, and is told so.
Fire AdaptersLink::listen(std::shared_ptr<ipc::Session> session, os::Child adapters) {
  const pid_t pid = adapters.pid();
  while (co_await session->receive()) {
    while (const auto request = session->next_request()) {
      session->send_error(request->id, Error::make(Code::method_not_found, "no such method"));
    }
    session->end_turn();
  }
  const bool was_expected = session_ != session;
  if (!was_expected) session_.reset();
  session->close();
  // Whatever it still does, nobody hears of it any more.
  adapters.end();
  if (pid_ == pid) pid_ = -1;
  if (!was_expected) sessions_.log().error("the adapters ended; the next call starts them again", {{"pid", pid}});
}

}  // namespace sallyport::platform

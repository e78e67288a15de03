#include "approval/deputy.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "approval/limits.h"

namespace sallyport::approval {
namespace {

Verdict reject(std::string why, std::string by) {
  return {.kind = Verdict::Kind::rejected, .payload = {}, .why = std::move(why), .by = std::move(by)};
}

std::string name_of(const Sender& sender) {
  const std::string& program = sender.profile.deputy.front();
  return "deputy/" + program.substr(program.rfind('/') + 1);
}

}  // namespace

Verdict read_verdict(const Matter& matter, wire::Value answer) {
  constexpr wire::Field kAnswer[] = {
      {.name = "verdict", .type = wire::Type::string, .required = true, .most = 16},
      {.name = "sha256", .type = wire::Type::string, .required = true, .least = 64, .most = 64},
      {.name = "why", .type = wire::Type::string, .most = kMaxWhyBytes},
      {.name = "payload", .type = wire::Type::object},
  };
  if (!answer.is_object() || !wire::check_params(kAnswer, answer)) return reject("the deputy's answer is garbled", {});
  if (answer.get("sha256").as_string() != to_hex(wire::sha256(as_bytes(matter.payload)))) {
    return reject("the deputy's answer is about something else", {});
  }
  const std::string_view verdict = *answer.get("verdict").as_string();
  const wire::Value payload = answer.get("payload");
  std::string why(answer.get("why").as_string().value_or(""));
  if (verdict == "reject" && !payload) return reject(why.empty() ? "the deputy rejected it" : std::move(why), {});
  if (verdict == "approve" && !payload) return {.kind = Verdict::Kind::approved, .payload = {}, .why = why, .by = {}};
  if (verdict != "modify" || !payload) return reject("the deputy's answer is garbled", {});
  std::string changed = payload.to_json();
  if (changed == matter.payload) return reject("the deputy's modification changes nothing", {});
  if (changed.size() > kMaxVerdictBytes) return reject("the deputy's modification is too large", {});
  return {.kind = Verdict::Kind::modified, .payload = std::move(changed), .why = why, .by = {}};
}

Deputy::Deputy(ipc::Sessions& sessions, const Clock& clock, FindSender find_sender, StartCell start_cell)
    : sessions_(sessions),
      find_sender_(std::move(find_sender)),
      start_cell_(start_cell),
      rules_(sessions.loop(), clock, std::move(start_cell)) {}

bool Deputy::begin(const std::string& container) {
  std::size_t& own = at_work_for_[container];
  if (at_work_ == kMaxDeputies || own == kMaxDeputiesPerContainer) return false;
  ++at_work_;
  ++own;
  return true;
}

void Deputy::end(const std::string& container) {
  --at_work_;
  if (--at_work_for_[container] == 0) at_work_for_.erase(container);
  const auto next =
      std::find_if(queue_.begin(), queue_.end(), [this](const Waiting& waiting) { return begin(waiting.container); });
  if (next == queue_.end()) return;
  const auto turn = std::move(next->turn);
  queue_.erase(next);
  turn->resolve(true);
}

Task<Verdict> Deputy::review(Matter matter) {
  const auto sender = find_sender_(matter.container);
  if (!sender) co_return reject("nothing is known of whoever asks", "deputy");
  if (!begin(matter.container)) {
    const auto turn = std::make_shared<ipc::OneShot<bool>>();
    queue_.push_back({matter.container, turn});
    co_await *turn;
  }
  Verdict verdict;
  if (sender->profile.deputy.empty()) {
    verdict = co_await rules_.review(matter, *sender);
  } else {
    verdict = co_await ask(matter, *sender);
    verdict.by = name_of(*sender);
  }
  end(matter.container);
  co_return verdict;
}

Task<Verdict> Deputy::ask(const Matter& matter, const Sender& sender) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    co_return reject("the deputy could not be asked: " + errno_name(errno), {});
  }
  UniqueFd ours{ends[0]}, theirs{ends[1]};
  const UniqueFd nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  CellCommand command{.argv = sender.profile.deputy,
                      .readable = {},
                      .fds = {nothing.get(), nothing.get(), nothing.get(), theirs.get()},
                      .lifetime = sender.profile.deputy_limits.timeout};
  // The program and the files that it is given are what it may see.
  for (const std::string& argument : command.argv) {
    if (argument[0] == '/') command.readable.push_back(argument);
  }
  const auto cell = start_cell_(command);
  theirs.reset();
  if (!cell) {
    sessions_.log().error("a deputy could not be started", {{"error", cell.error().describe()}});
    co_return reject("the deputy could not be started", {});
  }
  co_return co_await converse(matter, sender, std::move(ours));
}

Task<Verdict> Deputy::converse(const Matter& matter, const Sender& sender, UniqueFd socket) {
  auto opened = ipc::Session::open(sessions_, std::move(socket), UniqueFd(), wire::Side::connecting, "deputy");
  if (!opened) co_return reject("the deputy could not be asked", {});
  const std::shared_ptr<ipc::Session> session = std::move(*opened);
  const auto answered = std::make_shared<ipc::OneShot<Verdict>>();
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("subject", matter.subject).member("container", matter.container);
    json.member("payload", matter.payload);
    json.member("sha256", to_hex(wire::sha256(as_bytes(matter.payload)))).end_object();
  });
  const Millis limit = sender.profile.deputy_limits.timeout;
  const auto asked =
      session->request("deputy.review", params, static_cast<std::uint32_t>(limit.count()),
                       [answered, matter](const Result<wire::Message>& message) {
                         if (!message)
                           return answered->resolve(reject("the deputy ended without an answer that can be read", {}));
                         if (message->error) return answered->resolve(reject("the deputy failed", {}));
                         answered->resolve(read_verdict(matter, message->result));
                       });
  if (!asked) co_return reject("the request is too large for a deputy", {});
  listen(session);
  ipc::Loop& loop = sessions_.loop();
  const auto timer = loop.after(limit, [answered] { answered->resolve(reject("the deputy took too long", {})); });
  Verdict verdict = co_await *answered;
  loop.cancel(timer);
  session->close();
  co_return verdict;
}

// A deputy answers once and asks nothing.
Fire Deputy::listen(std::shared_ptr<ipc::Session> session) {
  while (co_await session->receive()) {
    while (const auto request = session->next_request()) session->close();
    session->end_turn();
  }
  session->close();
}

}  // namespace sallyport::approval

#include "mailbox/mailbox.h"

#include <algorithm>

#include "approval/look.h"
#include "base/fault_point.h"
#include "mailbox/limits.h"
#include "mailbox/states.h"

namespace sallyport::mailbox {
namespace {

constexpr Millis kRecoveryLook{5};

constexpr std::int64_t kRecoverPage = 256;

}  // namespace

Mailbox::Mailbox(Parts parts, std::vector<Signal> signals, std::string quarantine)
    : parts_(parts),
      quarantine_(std::move(quarantine)),
      flow_(parts, std::move(signals), quarantine_),
      intake_(
          parts.loop, parts.ledger, parts.log,
          {.look = [this](const std::string& container, const std::string& name) { return look(container, name); },
           .on_fault = [this](const std::string& container, const std::string& why) { on_fault(container, why); }}) {
  flow_.on_room = [this](const std::string& container) { intake_.wake(container); };
}

Mailbox::~Mailbox() { close(); }

void Mailbox::close() {
  if (std::exchange(is_closed_, true)) return;
  intake_.close();
  parts_.loop.cancel(timer_);
  parts_.loop.cancel(idle_timer_);
  flow_.close();
}

Status Mailbox::add(const std::string& container, const std::string& directory) {
  TRY(auto box, Box::open(container, directory));
  const auto desk = std::make_shared<Desk>(std::move(box));
  desks_[container] = desk;
  quarantine_.open(container);
  intake_.add(desk->box());
  return ok();
}

void Mailbox::remove(const std::string& container) {
  const auto found = desks_.find(container);
  if (found == desks_.end()) return;
  found->second->is_removed = true;
  found->second->box().close_replies();
  intake_.remove(container);
  flow_.abandon(container);
  quarantine_.remove(container);
  desks_.erase(found);
  ledger::Submission submission;
  submission.work = [container](ledger::Transaction& transaction) {
    return ledger::forget_container(transaction, container, state::kExecuting);
  };
  ledger::Entry& note = submission.entries.emplace_back();
  note.principal = "container/" + container;
  note.method = "mailbox.removed";
  parts_.ledger.submit(std::move(submission));
}

void Mailbox::when_idle(const std::string& container, std::function<void()> work) {
  if (is_closed_) return;
  intake_.sweep(container);
  when_idle_.emplace_back(container, std::move(work));
  if (idle_timer_ == 0) idle_timer_ = parts_.loop.after(kIdleLookEvery, [this] { look_for_idle(); });
}

void Mailbox::look_for_idle() {
  idle_timer_ = 0;
  std::vector<std::function<void()>> idle;
  std::erase_if(when_idle_, [&](auto& entry) {
    const auto desk = desks_.find(entry.first);
    const bool is_idle = intake_.is_idle(entry.first) && flow_.pending_of(entry.first) == 0 &&
                         (desk == desks_.end() || desk->second->accepting.empty());
    if (is_idle) idle.push_back(std::move(entry.second));
    return is_idle;
  });
  for (const auto& work : idle) work();
  // One of them may have begun to wait itself.
  if (!when_idle_.empty() && idle_timer_ == 0)
    idle_timer_ = parts_.loop.after(kIdleLookEvery, [this] { look_for_idle(); });
}

// ---- messages ----

bool Mailbox::look(const std::string& container, const std::string& name) {
  const auto found = desks_.find(container);
  if (found == desks_.end()) return true;
  const std::shared_ptr<Desk>& desk = found->second;
  if (desk->accepting.contains(name)) return true;
  if (desk->accepting.size() >= kMaxAccepting) return false;
  if (accepting_ >= kMaxAcceptingInAll) {
    is_full_ = true;
    return false;
  }
  auto taken = desk->box().take(name);
  if (!taken) {
    const Code code = taken.error().code;
    // Gone already, or its turn comes with the next rescan.
    if (code == Code::not_found || code == Code::unavailable) return true;
    flow_.refuse(*desk, {.request_id = is_request_id(name) ? name : "", .file = name}, taken.error());
    desk->box().reject(name);
    return true;
  }
  fault_point("taken");
  const std::string_view content = as_text(taken->content.view());
  auto parsed = parse_message(decoder_, taken->content.view());
  if (const auto* bad = std::get_if<Malformed>(&parsed)) {
    // Whoever names the file after its request is answered even so.
    const std::string& id = bad->request_id.empty() && is_request_id(name) ? name : bad->request_id;
    flow_.refuse(*desk, {.request_id = id, .file = name, .content = content}, bad->error);
    desk->box().discard(name, taken->inode);
    return true;
  }
  auto& message = std::get<Message>(parsed);
  if (flow_.is_busy(*desk, message.signal)) return false;
  // Without an id of its own, the very file is what must not be taken twice.
  const std::string id = message.request_id.empty()
                             ? "signal-" + std::to_string(taken->inode) + "-" + std::to_string(taken->changed_ns)
                             : "";
  auto arrival = flow_.examine(*desk, message.signal, message.request_id, message.payload, id, {});
  decoder_.recycle(std::move(message.document));
  if (!arrival) {
    flow_.refuse(*desk, {.signal = message.signal, .request_id = message.request_id, .file = name, .content = content},
                 arrival.error());
    desk->box().discard(name, taken->inode);
    return true;
  }
  desk->accepting.insert(name);
  ++accepting_;
  take_in(desk, std::move(*arrival), name, std::move(taken->content), taken->inode);
  return true;
}

Fire Mailbox::take_in(std::shared_ptr<Desk> desk, std::unique_ptr<Flow::Arrival> arrival, std::string name,
                      Bytes content, std::uint64_t inode) {
  const std::string request_id = arrival->row.key.request_id, signal = arrival->row.subject;
  const std::function<void()> discard = [&] {
    if (!desk->is_removed) desk->box().discard(name, inode);
  };
  const Status status = co_await flow_.take_in(desk, std::move(arrival), std::nullopt, discard);
  desk->accepting.erase(name);
  --accepting_;
  if (is_closed_) co_return;
  if (is_full_ && accepting_ <= kMaxAcceptingInAll / 4 * 3) {
    is_full_ = false;
    intake_.wake_all();
  }
  if (desk->is_removed) co_return;
  if (!is_full_) intake_.wake(desk->container());
  if (status) co_return;
  // Not accepted, not removed: it lies there until the ledger can be written.
  if (status.error().code != Code::conflict) {
    parts_.log.warn("a message waits for the ledger",
                    {{"container", desk->container()}, {"error", status.error().describe()}});
    co_return;
  }
  const Flow::Refused what{.signal = signal,
                           .request_id = is_request_id(request_id) ? request_id : "",
                           .file = name,
                           .content = as_text(content.view())};
  flow_.refuse(*desk, what, status.error());
  desk->box().discard(name, inode);
}

Task<Result<std::string>> Mailbox::raise(std::string container, std::string signal, std::string request_id,
                                         wire::Value payload, bool wants_interim, Origin origin, Answer answer) {
  const auto found = desks_.find(container);
  if (found == desks_.end()) co_return Error::make(Code::not_found, "this container has no mailbox");
  const std::shared_ptr<Desk> desk = found->second;
  // What comes again must be known by then.
  while (!is_recovered_ && !is_closed_) co_await parts_.loop.sleep(kRecoveryLook);
  if (is_closed_) co_return Error::make(Code::unavailable, "the warden stops");
  if (desk->is_removed) co_return Error::make(Code::cancelled, "the container was removed");
  auto arrival = flow_.examine(*desk, signal, request_id, payload, "signal-" + make_request_id(), origin);
  const Flow::Refused what{.signal = signal, .request_id = request_id, .payload = payload};
  if (!arrival) {
    flow_.refuse(*desk, what, arrival.error(), origin);
    co_return std::move(arrival).error();
  }
  std::optional<Request::Waiter> waiter;
  waiter.emplace(answer, wants_interim);
  const std::function<void()> nothing_to_discard;
  const Status taken = co_await flow_.take_in(desk, std::move(*arrival), std::move(waiter), nothing_to_discard);
  if (desk->is_removed) co_return Error::make(Code::cancelled, "the container was removed");
  if (!taken && taken.error().code == Code::conflict) flow_.refuse(*desk, what, taken.error(), origin);
  CO_TRY(taken);
  if (is_closed_) co_return Error::make(Code::unavailable, "the warden is stopping; ask again later");
  co_return co_await *answer;
}

Task<Status> Mailbox::resolve(std::string container, std::string request_id, bool was_done, std::string by) {
  const ledger::JournalKey key{std::move(container), std::move(request_id)};
  co_return co_await flow_.resolve(key, was_done, std::move(by));
}

// ---- all the time ----

void Mailbox::on_fault(const std::string& container, const std::string& why) {
  if (const auto found = desks_.find(container); found != desks_.end()) found->second->fault = why;
  if (why.empty()) {
    parts_.log.info("a mailbox is well again", {{"container", container}});
    return;
  }
  parts_.log.warn("a mailbox is faulty; nothing is taken from it", {{"container", container}, {"why", why}});
  parts_.on_event("mailbox.faulted", wire::to_json([&](wire::JsonWriter& json) {
                    json.begin_object().member("container", container).member("why", why).end_object();
                  }));
}

void Mailbox::keep_house() {
  timer_ = parts_.loop.after(kRescanEvery, [this] { keep_house(); });
  std::vector<std::pair<std::string, std::string>> overloaded;
  for (const auto& [container, desk] : desks_) {
    desk->retry_replies();
    flow_.expire(desk);
    const std::string overload = desk->box().overload();
    // Once: it takes a while to be over.
    const bool is_known = std::exchange(desk->is_overloaded, !overload.empty());
    if (!overload.empty() && !is_known && parts_.on_overload) overloaded.emplace_back(container, overload);
  }
  for (const auto& [container, why] : overloaded) parts_.on_overload(container, why);
}

Fire Mailbox::start() {
  for (;;) {
    const Status recovered = co_await recover();
    if (is_closed_) co_return;
    if (recovered) break;
    parts_.log.error("the journal cannot be read; no messages are taken in", {{"error", recovered.error().describe()}});
    co_await parts_.loop.sleep(kRetryAfter);
    if (is_closed_) co_return;
  }
  is_recovered_ = true;
  intake_.start();
  keep_house();
}

// Replies first, then what is still to be done, then new messages: whatever comes again is known by then.
Task<Status> Mailbox::recover() {
  std::set<std::string> orphans;
  CO_TRY(co_await recover_replies(orphans));
  for (std::int64_t after = 0;;) {
    std::optional<Result<std::vector<ledger::JournalRow>>> rows;
    CO_TRY(co_await approval::look(
        parts_.ledger, [&](ledger::Database& database) { rows = open_rows(database, after, kRecoverPage); }));
    if (!*rows) co_return std::move(*rows).error();
    if ((*rows)->empty() || is_closed_) break;
    after = (*rows)->back().number;
    for (ledger::JournalRow& row : **rows) {
      const auto found = desks_.find(row.key.container);
      if (found != desks_.end()) {
        flow_.resume(found->second, std::move(row));
      } else {
        flow_.forget(row);
        orphans.insert(row.key.container);
      }
    }
  }
  // Their containers were removed, and a crash or a full disk came in between.
  for (const std::string& container : orphans) {
    ledger::Submission submission;
    submission.work = [container](ledger::Transaction& transaction) {
      return ledger::forget_container(transaction, container, "");
    };
    parts_.ledger.submit(std::move(submission));
  }
  co_return ok();
}

Task<Status> Mailbox::recover_replies(std::set<std::string>& orphans) {
  for (std::int64_t after = 0;;) {
    std::optional<Result<std::vector<ledger::JournalRow>>> rows;
    CO_TRY(co_await approval::look(
        parts_.ledger, [&](ledger::Database& database) { rows = answered_rows(database, after, kRecoverPage); }));
    if (!*rows) co_return std::move(*rows).error();
    if ((*rows)->empty() || is_closed_) break;
    after = (*rows)->back().number;
    for (const ledger::JournalRow& row : **rows) {
      const auto found = desks_.find(row.key.container);
      if (found == desks_.end()) {
        orphans.insert(row.key.container);
        continue;
      }
      // Of what passed before this warden only the wall clock tells.
      const Millis age(std::max<std::int64_t>(parts_.clock.unix_millis() - row.changed_ms, 0));
      found->second->restore_reply(row.key.request_id, *row.answer, parts_.clock.steady() - age);
    }
  }
  std::vector<std::shared_ptr<Desk>> desks;
  desks.reserve(desks_.size());
  for (const auto& [container, desk] : desks_) desks.push_back(desk);
  for (const auto& desk : desks) {
    std::optional<Result<std::int64_t>> count;
    CO_TRY(co_await approval::look(
        parts_.ledger, [&](ledger::Database& database) { count = count_rows(database, desk->container()); }));
    if (!*count) co_return std::move(*count).error();
    desk->requests = std::max<std::int64_t>(desk->requests, **count);
  }
  co_return ok();
}

// ---- status ----

void Mailbox::write_status(wire::JsonWriter& json, const Desk& desk) const {
  const std::string& container = desk.container();
  json.begin_object()
      .member("container", container)
      .member("state", desk.fault.empty() ? "ok" : "faulted")
      .member("watched", intake_.is_watched(container))
      .member("accepted", desk.accepted)
      .member("refused", desk.refused)
      .member("replies", desk.replies())
      .member("unwritten_replies", desk.unwritten_replies());
  if (!desk.fault.empty()) json.member("why", desk.fault);
  json.key("pending").begin_array();
  const auto& pending = flow_.pending();
  for (auto next = pending.lower_bound({container, ""}); next != pending.end() && next->first.container == container;
       ++next) {
    const ledger::JournalRow& row = next->second->row;
    json.begin_object()
        .member("request_id", row.key.request_id)
        .member("signal", row.subject)
        .member("state", row.state)
        .member("since", row.accepted_ms)
        .end_object();
  }
  json.end_array().key("quarantine").begin_array();
  for (const Refusal& refusal : quarantine_.of(container)) {
    json.begin_object()
        .member("number", refusal.number)
        .member("time", refusal.time_ms)
        .member("name", refusal.name)
        .member("code", refusal.code)
        .member("reason", refusal.reason)
        .member("bytes", refusal.bytes)
        .end_object();
  }
  json.end_array().end_object();
}

std::string Mailbox::status(const std::string& container, const std::string& after) const {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object();
    wire::write_page(json, "mailboxes", desks_, after, [&](const auto& each) {
      if (container.empty() || each.first == container) write_status(json, *each.second);
    });
    json.end_object();
  });
}

}  // namespace sallyport::mailbox

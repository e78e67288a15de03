// From a signal that was raised to its answer: checked, judged, accepted into the journal, reviewed, acted on
// once, answered. Every edge is in the ledger before the next begins; see mailbox/states.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "approval/review.h"
#include "base/base.h"
#include "ipc/ipc.h"
#include "ledger/journal.h"
#include "mailbox/desk.h"
#include "mailbox/judge.h"
#include "mailbox/message.h"
#include "mailbox/quarantine.h"
#include "mailbox/signal.h"

namespace sallyport::mailbox {

// What the mailbox needs of the warden. All of it outlives the mailbox.
struct Parts {
  ipc::Loop& loop;
  ledger::Ledger& ledger;
  const Clock& clock;
  const Log& log;
  const Judge& judge;
  approval::Reviewer& deputy;
  approval::Reviewer& human;
  std::function<void(std::string_view event, const std::string& params)> on_event;
  // More lies in a container's in/tmp than it may put there: stop it, and take it away.
  std::function<void(const std::string& container, const std::string& why)> on_overload = {};
};

// A request that is not answered yet.
struct Request {
  ledger::JournalRow row;
  std::shared_ptr<const Signal> signal;  // null: the table has it no more
  std::shared_ptr<Desk> desk;
  std::shared_ptr<Desk> run;                               // one of its desk's running programs, if it is one
  std::string agreed_under;                                // the policy that the row's reviewers were asked under
  std::shared_ptr<ipc::OneShot<approval::Verdict>> asked;  // while somebody reviews it
  struct Waiter {
    Waiter(std::shared_ptr<ipc::OneShot<std::string>> to, bool interim)
        : answer(std::move(to)), wants_interim(interim) {}
    std::shared_ptr<ipc::OneShot<std::string>> answer;  // resolved already: who waited has given up
    bool wants_interim;                                 // also takes "awaiting_human"
  };
  std::vector<Waiter> waiters;
  bool is_gone = false;       // its container was removed, or the warden stops
  bool is_answering = false;  // its final answer is on its way: no other may be written
};

// Who raised it, for the record: through which door.
struct Origin {
  std::string session = "mailbox";
  std::int64_t peer_pid = -1;
};

class Flow {
 public:
  Flow(Parts parts, std::vector<Signal> signals, Quarantine& quarantine);

  void replace_signals(std::vector<Signal> signals);

  // A message, not yet accepted: examined and, if nothing is wrong with it, on its way.
  struct Arrival {
    std::shared_ptr<const Signal> signal;
    ledger::JournalRow row;  // as it will be inserted
    ledger::Entry entry;     // recorded with it
    std::optional<Permit> permit;
    std::optional<Error> denial;
    std::vector<ledger::Limit> counted;  // the rates that it was counted under
    std::string counts_as;
    std::shared_ptr<Desk> run;
  };
  // Whether this signal would start one program too many: then nothing is taken in before one has ended.
  bool is_busy(const Desk& desk, std::string_view signal) const;
  // Runs when one has ended.
  std::function<void(const std::string& container)> on_room;
  // `id_of_signal` names the row of one that has no id. Everything that makes it an error is said to the
  // sender and changes nothing. On the heap, because it is large and passed on often.
  Result<std::unique_ptr<Arrival>> examine(Desk& desk, std::string_view signal, std::string_view request_id,
                                           wire::Value payload, const std::string& id_of_signal, const Origin& origin);

  // Into the journal, and on from there. The status is the ledger's (UNAVAILABLE: nothing was accepted; try
  // again) or CONFLICT. `accepted` runs once it is durable.
  Task<Status> take_in(std::shared_ptr<Desk> desk, std::unique_ptr<Arrival> arrival,
                       std::optional<Request::Waiter> waiter, const std::function<void()>& accepted);

  // What is not taken in, as far as it is known.
  struct Refused {
    std::string signal = {};        // empty: not known
    std::string request_id = {};    // or empty
    std::string file = {};          // its name; empty: it came over the door
    std::string_view content = {};  // of the file
    wire::Value payload = {};       // over the door
  };
  // What is wrong with it is recorded and kept for people to look at. A file with an id is answered; over the door the
  // caller does it.
  void refuse(Desk& desk, const Refused& what, const Error& error, const Origin& origin = {});

  // A row that an earlier warden left open.
  void resume(std::shared_ptr<Desk> desk, ledger::JournalRow row);
  // A row of a container that is no more: if it was begun, it is recorded that nobody knows what came of it.
  void forget(const ledger::JournalRow& row);
  // A human says what came of an action that a crash cut short.
  Task<Status> resolve(ledger::JournalKey key, bool was_done, std::string by);

  void expire(const std::shared_ptr<Desk>& desk);
  // Nothing of this container is waited for any more.
  void abandon(const std::string& container);
  void close();

  // What will run if this request is approved: a command line, or nothing.
  std::vector<std::string> command_of(const ledger::JournalKey& key) const;
  const std::map<ledger::JournalKey, std::shared_ptr<Request>>& pending() const { return pending_; }
  std::size_t pending_of(const std::string& container) const;

 private:
  std::shared_ptr<const Signal> find_signal(std::string_view name) const;
  bool may_record(Desk& desk) const;
  Task<Status> cancel(ledger::Accepted accepted);
  void proceed(const std::shared_ptr<Desk>& desk, ledger::Accepted accepted, Arrival& arrival,
               std::optional<Request::Waiter> waiter);
  void answer_again(Desk& desk, const ledger::JournalRow& row, const std::optional<Request::Waiter>& waiter);
  Fire drive(std::shared_ptr<Request> request, std::optional<Permit> permit);
  Fire restart(std::shared_ptr<Request> request);
  Task<Result<Permit>> review(Request& request);
  Task<std::optional<Error>> ask_deputy(Request& request);
  Task<std::optional<Error>> ask_human(Request& request);
  Task<approval::Verdict> ask(Request& request, approval::Reviewer& reviewer);
  static Raised raised(const Request& request);
  Task<Result<std::string>> act(const Permit& permit, const Request& request);
  Task<Status> finish(std::shared_ptr<Request> request, Result<std::string> outcome, std::string by);
  Task<Status> step(Request& request, ledger::Edge edge, ledger::Entry entry);
  // A work that fails clean. Both must live until it is done.
  Task<Status> commit(const ledger::Work& work, const std::function<void()>& on_disk);
  void deliver_interim(Request& request, std::string_view state);
  static void tell_waiters(Request& request, const std::string& answer, bool is_final);
  Result<Permit> permit(const Request& request) const;
  ledger::Entry unknown(const ledger::JournalRow& row) const;
  ledger::Entry entry(ledger::Stage stage, const ledger::JournalRow& row, const Error* error = nullptr) const;
  void publish_answer(const ledger::JournalRow& row, const Error* error);

  Parts parts_;
  std::map<std::string, std::shared_ptr<const Signal>, std::less<>> signals_;
  Quarantine& quarantine_;
  std::map<ledger::JournalKey, std::shared_ptr<Request>> pending_;
  bool is_closing_ = false;
};

// The response message that answers a request, as it is stored and as it lies in `out`.
std::string response_json(std::string_view request_id, const Result<std::string>& outcome);
std::string interim_json(std::string_view request_id, std::string_view state);

}  // namespace sallyport::mailbox

// The mailboxes of all containers: what the warden and its handlers use of this module. See docs/mailbox.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "mailbox/flow.h"
#include "mailbox/intake.h"

namespace sallyport::mailbox {

class Mailbox {
 public:
  // `quarantine` is a directory of the host's own.
  Mailbox(Parts parts, std::vector<Signal> signals, std::string quarantine);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Another table, for what comes from now on.
  void replace_signals(std::vector<Signal> signals) { flow_.replace_signals(std::move(signals)); }

  // Takes up what an earlier warden left, then begins to take in messages. All mailboxes of that time must
  // have been added before.
  Fire start();
  // Stops taking anything in; what is under way stays in the journal for the next warden.
  void close();

  // A container's mailbox, from its directory with in/{tmp,new} and out.
  Status add(const std::string& container, const std::string& directory);
  // Forgets everything about it: what waits is given up, what is being done is done.
  void remove(const std::string& container);
  bool has(const std::string& container) const { return desks_.contains(container); }
  // Calls `work` once everything that lies in it now is taken in and answered.
  void when_idle(const std::string& container, std::function<void()> work);

  // Raises a signal as a message does, and answers with the response message: when it is final, or, if it
  // `wants_interim`, when it waits for a human. Who resolves `answer` does not wait for it any more; it stays raised.
  using Answer = std::shared_ptr<ipc::OneShot<std::string>>;
  Task<Result<std::string>> raise(std::string container, std::string signal, std::string request_id,
                                  wire::Value payload, bool wants_interim, Origin origin,
                                  Answer answer = std::make_shared<ipc::OneShot<std::string>>());
  Task<Status> resolve(std::string container, std::string request_id, bool was_done, std::string by);

  // What will run if a request that is reviewed now is approved: a command line, or nothing.
  std::vector<std::string> command_of(const std::string& container, const std::string& request_id) const {
    return flow_.command_of({container, request_id});
  }

  // {"mailboxes":[...],"has_more":...}: of one container, or of all behind `after`.
  std::string status(const std::string& container, const std::string& after = {}) const;

 private:
  bool look(const std::string& container, const std::string& name);
  Fire take_in(std::shared_ptr<Desk> desk, std::unique_ptr<Flow::Arrival> arrival, std::string name, Bytes content,
               std::uint64_t inode);
  void on_fault(const std::string& container, const std::string& why);
  void keep_house();
  void look_for_idle();
  Task<Status> recover();
  // `orphans`: the containers of replies that have no mailbox.
  Task<Status> recover_replies(std::set<std::string>& orphans);
  void write_status(wire::JsonWriter& json, const Desk& desk) const;

  Parts parts_;
  Quarantine quarantine_;
  Flow flow_;
  Intake intake_;
  wire::Decoder decoder_;
  std::map<std::string, std::shared_ptr<Desk>, std::less<>> desks_;
  std::vector<std::pair<std::string, std::function<void()>>> when_idle_;
  ipc::Loop::TimerId timer_ = 0, idle_timer_ = 0;
  std::size_t accepting_ = 0;  // of all mailboxes
  bool is_full_ = false;       // nothing more is read until half of them are in the ledger
  bool is_recovered_ = false;  // what an earlier warden took in is known
  bool is_closed_ = false;
};

}  // namespace sallyport::mailbox

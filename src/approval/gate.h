// The human gate: questions that only somebody at the control door can answer.
//
// A question is bound to (id, payload hash, policy hash, expiry) and kept in the ledger's database. The first
// answer wins and the second is told. Expiry means no; so does a change of the policy before the answer. After
// a restart the same matter finds its question again. Expiry goes by the wall clock and, while this process
// lives, also by the steady one: setting the clock back gains nothing. Where the ledger cannot be written everything
// but an answer waits until it can be: nobody is told that a question is over, or that there is one, before it is.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "approval/limits.h"
#include "approval/question.h"
#include "approval/review.h"
#include "base/base.h"
#include "ipc/ipc.h"
#include "ledger/ledger.h"

namespace sallyport::approval {

inline constexpr std::string_view kCallPrefix = "call-";

class Gate final : public Reviewer {
 public:
  struct Hooks {
    std::function<std::string()> policy_hash;  // as it is now
    // For subscribers: approval.asked, approval.answered, approval.expired.
    std::function<void(std::string_view event, const std::string& params)> publish;
  };
  Gate(ledger::Ledger& ledger, ipc::Loop& loop, const Log& log, Hooks hooks)
      : ledger_(ledger), loop_(loop), log_(log), hooks_(std::move(hooks)) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // First of all, with the policy in force: makes the table, ends the questions that nobody waits for any more (those
  // of calls, which died with an earlier warden, and those of another policy), and sees to it that the others expire.
  void open();
  // Nothing waits for the ledger any more.
  void stop_waiting() { is_stopping_ = true; }
  // Last of all, when the ledger is closed: whoever still waits is told no, and can record nothing of it.
  void close();
  void set_expiry(Millis expiry) { expiry_ = expiry; }

  // The request id of a call over a door: its own id need not be unique, and nobody can ask about it again.
  std::string make_call_id() const { return own_calls_ + random_hex(8); }
  Task<Verdict> review(Matter matter) override;
  // Whoever asked is gone.
  void withdraw(const std::string& container, const std::string& request_id) override;
  // A container is gone, and with it all that it asked.
  void withdraw_all(const std::string& container);
  // After a reload: what was asked under another policy is void.
  void policy_changed();

  // The question as it ended: approved or denied; expired or voided if the answer came too late. CONFLICT if
  // it was over already, or if the payload is not the one with this hash (unless none is given).
  Task<Result<Question>> answer(std::string id, bool is_approved, std::string by, std::string why, std::string sha256);
  Task<Result<QuestionPage>> list(std::string after = {});
  Task<Result<Question>> find(std::string id);

 private:
  // A review whose question is on its way into the ledger.
  struct Asking {
    std::string container, request_id;
    bool is_wanted = true;
  };
  struct Waiting {
    std::vector<std::shared_ptr<ipc::OneShot<Verdict>>> waiters;
    ipc::Loop::TimerId timer = 0;
  };

  // Runs work in a transaction of its own; what it returns is there once it is on the disk.
  template <typename T>
  Task<Result<T>> commit(std::function<Result<T>(ledger::Transaction&)> work);
  // The same, again and again while the ledger cannot be written and somebody wants it; `before_each` runs here, the
  // work on the ledger's thread.
  template <typename T>
  Task<Result<T>> insist(std::function<Result<T>(ledger::Transaction&)> work, const bool* is_wanted = nullptr,
                         std::function<void()> before_each = nullptr);
  Fire watch_open_ones();
  void set_timer(const std::string& id, Millis left);
  Fire settle_later(QuestionState to, std::string why, std::function<bool(const Question&)> condition,
                    std::function<void()> before_each = nullptr);
  void expire(const std::string& id);
  void ended(const Question& question);
  void publish(std::string_view event, const Question& question);

  ledger::Ledger& ledger_;
  ipc::Loop& loop_;
  const Log& log_;
  Hooks hooks_;
  const std::string own_calls_ = std::string(kCallPrefix) + random_hex(8) + "-";
  Millis expiry_ = kDefaultExpiry;
  std::list<Asking> asking_;
  std::map<std::string, Waiting> waiting_;  // by question
  bool is_stopping_ = false;
};

}  // namespace sallyport::approval

// What the warden sees to by itself: that its policy is on record, that its ledger is
// what it was, that nobody fills the disk through a mailbox.
#include <unistd.h>

#include <filesystem>

#include "approval/look.h"
#include "containers/empty_directory.h"
#include "ledger/layout.h"
#include "ledger/verification.h"
#include "warden/warden.h"

namespace sallyport::warden {
namespace {

// Between two steps of the verification at the start: others have most of the ledger's time.
constexpr Millis kVerifyPause{20};
// Between two looks whether a container that is being stopped is over.
constexpr Millis kOverloadPause{50};
constexpr std::size_t kMostUnsent = 1024;  // names at once

}  // namespace

// Under which policy everything that follows was decided; or that another was refused.
void Warden::record_policy(const Status& loaded) {
  ledger::Entry entry;
  entry.stage = ledger::Stage::event;
  entry.principal = "warden";
  entry.method = "policy.loaded";
  entry.rule = "sha256=" + engine_.policy_hash();
  if (!loaded) {
    entry.code = to_string(loaded.error().code);
    entry.rule += " stays in force: " + loaded.error().message;
  }
  // If there is no room for it the ledger counts it, and says so when there is.
  [[maybe_unused]] const Status appended = ledger_->append(entry);
}

// Not before it serves: that would take the longer the longer it has lived.
Fire Warden::check_ledger() {
  ledger::Verification verification({.audit_directory = ledger::audit_directory(ledger_->state_dir()),
                                     .key = ledger_->public_key(),
                                     .against = std::nullopt,
                                     .exported = std::nullopt});
  for (;;) {
    std::optional<Result<bool>> is_done;
    const Status looked =
        co_await approval::look(*ledger_, [&](ledger::Database& database) { is_done = verification.step(database); });
    if (!looked || is_stopping_) co_return;
    const bool is_over = !*is_done || **is_done;
    if (!*is_done) ledger_->note_damage("the ledger cannot be verified: " + is_done->error().describe());
    if (is_over) break;
    co_await loop_.sleep(kVerifyPause);
    if (is_stopping_) co_return;
  }
  if (!verification.report().is_intact()) {
    ledger_->note_damage("the audit log is damaged or was changed; see sallyport audit verify");
  }
  if (const auto health = ledger_->health(); !health.is_good()) log_.error("ledger", {{"error", health.error}});
}

// What lies in a mailbox beside the messages that were sent.
static std::vector<std::string> unsent_in(const std::string& in) {
  std::vector<std::string> names;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(in, failure), end; !failure && at != end && names.size() < kMostUnsent;
       at.increment(failure)) {
    if (at->path().filename() != "new") names.push_back(at->path().filename());
  }
  return names;
}

// Its disk is everybody's: it ends at once, and what it put there goes. What it has sent is still answered.
Fire Warden::stop_overloaded(std::shared_ptr<containers::Container> container, std::string why) {
  if (!container) co_return;
  log_.warn("a container is stopped", {{"container", container->id}, {"why", why}});
  record({.container = container->id, .event = "container.violation", .code = Code::quota_exceeded, .what = why});
  events_.publish("container.violation", wire::to_json([&](wire::JsonWriter& json) {
                    json.begin_object().member("container", container->id).member("layer", "mailbox");
                    json.member("operation", "write").member("target", "in/tmp").member("rule", why);
                    json.member("time", host_.clock.unix_millis()).end_object();
                  }));
  containers_.stop(container, Millis(0));
  const std::string in = container->mailbox_dir + "/in";
  for (bool is_empty = false; !is_empty && !is_stopping_;) {
    is_empty = containers::is_over(container->state);
    const std::vector<std::string> names = unsent_in(in);
    for (const std::string& name : names) {
      const std::string path = (std::filesystem::path(in) / name).native();
      const auto emptied = co_await containers::empty_directory(loop_, path);
      is_empty = is_empty && (!emptied || emptied->is_complete);
      if (name == "tmp") continue;
      if (::rmdir(path.c_str()) != 0) ::unlink(path.c_str());
    }
    if (!is_empty) co_await loop_.sleep(kOverloadPause);
  }
}

}  // namespace sallyport::warden

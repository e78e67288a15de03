// audit.query, audit.verify, audit.checkpoint
#include "approval/look.h"
#include "handlers/method.h"
#include "ledger/layout.h"
#include "ledger/query.h"
#include "ledger/verification.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::OneShot;
using ipc::Reply;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

constexpr Millis kVerifyTimeout{10 * 60 * 1000};
constexpr std::int64_t kMaxFilterBytes = 256;

constexpr Field kQuery[] = {{.name = "since", .type = Type::integer},
                            {.name = "until", .type = Type::integer},
                            {.name = "principal", .type = Type::string, .most = kMaxFilterBytes},
                            {.name = "method", .type = Type::string, .most = kMaxFilterBytes},
                            {.name = "decision", .type = Type::string, .most = kMaxFilterBytes},
                            {.name = "limit", .type = Type::integer, .least = 1, .most = ledger::kMaxQueryRecords},
                            {.name = "cursor", .type = Type::integer, .least = 0}};

Task<Reply> query(const Permit&, Call& call, RequestContext&, Host& host) {
  const wire::Value params = call.params();
  ledger::Query wanted;
  wanted.since_ms = params.get("since").as_int().value_or(wanted.since_ms);
  wanted.until_ms = params.get("until").as_int().value_or(wanted.until_ms);
  wanted.principal = params.get("principal").as_string().value_or("");
  wanted.method = params.get("method").as_string().value_or("");
  wanted.decision = params.get("decision").as_string().value_or("");
  CO_TRY(ledger::check_decision(wanted.decision));
  wanted.limit = params.get("limit").as_int().value_or(wanted.limit);
  wanted.cursor = params.get("cursor").as_uint().value_or(0);
  std::optional<Result<ledger::Page>> page;
  CO_TRY(co_await approval::look(host.ledger,
                                 [&](ledger::Database& database) { page = ledger::run_query(database, wanted); }));
  if (!*page) co_return std::move(*page).error();
  co_return call.result([&](JsonWriter& json) { ledger::write_page(json, **page); });
}

constexpr Field kVerify[] = {{.name = "against", .type = Type::object}};

Task<Reply> verify(const Permit&, Call& call, RequestContext&, Host& host) {
  ledger::Verification::Input input;
  input.audit_directory = ledger::audit_directory(host.ledger.state_dir());
  input.key = host.ledger.public_key();
  input.exported = host.ledger.health().exported_seq;
  if (const wire::Value against = call.params().get("against")) {
    auto checkpoint = ledger::read_checkpoint(against);
    if (!checkpoint) co_return Error::invalid_param("params.against", checkpoint.error().message);
    input.against = *checkpoint;
  }
  ledger::Verification verification(std::move(input));
  std::optional<Result<bool>> is_done;
  // In steps, so that nobody's commit waits for all of it.
  do {
    if (call.is_answered()) co_return Error::make(Code::cancelled, "nobody waits for it any more");
    CO_TRY(co_await approval::look(host.ledger,
                                   [&](ledger::Database& database) { is_done = verification.step(database); }));
    if (!*is_done) co_return std::move(*is_done).error();
  } while (!**is_done);
  co_return call.result([&](JsonWriter& json) { json.raw(ledger::to_json(verification.report())); });
}

Task<Reply> checkpoint(const Permit&, Call& call, RequestContext&, Host& host) {
  std::optional<ledger::Checkpoint> signed_now;
  OneShot<Status> done;
  ledger::Submission submission;
  submission.work = [&](ledger::Transaction& transaction) -> Status {
    TRY(signed_now, transaction.checkpoint());
    return ok();
  };
  submission.done = [&done](Status status) { done.resolve(std::move(status)); };
  host.ledger.submit(std::move(submission));
  CO_TRY(co_await done);
  co_return call.result([&](JsonWriter& json) { json.raw(ledger::to_json(*signed_now)); });
}

constexpr Method kMethods[] = {
    // Reading the log is not recorded: whoever follows it would only see himself.
    {.name = "audit.query", .handle = query, .params = kQuery},
    {.name = "audit.verify", .handle = verify, .params = kVerify, .timeout = kVerifyTimeout},
    {.name = "audit.checkpoint", .handle = checkpoint, .audit = Audit::buffered},
};

}  // namespace

std::span<const Method> audit_methods() { return kMethods; }

}  // namespace sallyport::handlers

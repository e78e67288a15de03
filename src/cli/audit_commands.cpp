// audit tail, query, verify, checkpoint
//
// What only reads opens the ledger by itself, read-only: it works without a warden, and a verification
// does not have to believe the one it checks.
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <thread>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"
#include "ledger/layout.h"
#include "ledger/limits.h"
#include "ledger/query.h"
#include "ledger/verification.h"
#include "os/files.h"

namespace sallyport::cli {
namespace {

constexpr Millis kFollowDelay{200};
constexpr std::size_t kMaxCheckpointBytes = 4096;
constexpr std::uint64_t kMostAtOnce = 1'000'000'000;  // records: more than anybody has

// ---- time ----

std::string show_time(std::int64_t millis) {
  const std::time_t seconds = millis / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03dZ", static_cast<int>(millis % 1000));
  return std::string(text.data(), length) + fraction.data();
}

// "90s", "10m", "2h", "7d" ago; "2026-03-01", "2026-03-01T12:00:00Z"; or milliseconds since 1970.
Result<std::int64_t> parse_time(const std::string& text, std::int64_t now_ms) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) return number;
  if (parsed.ec == std::errc() && parsed.ptr == end - 1) {
    constexpr std::string_view kUnits = "smhd";
    constexpr std::array<std::int64_t, 4> kMillis = {1000, 60'000, 3'600'000, 86'400'000};
    const std::size_t unit = kUnits.find(*parsed.ptr);
    if (unit != std::string_view::npos && number >= 0 && number < 1'000'000'000) {
      return now_ms - number * kMillis.at(unit);
    }
  }
  for (const char* format : {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"}) {
    std::tm utc{};
    const char* rest = ::strptime(text.c_str(), format, &utc);
    if (rest != nullptr && *rest == '\0') return std::int64_t{::timegm(&utc)} * 1000;
  }
  return Error::make(Code::invalid_params, "not a time: " + escape_for_display(text) +
                                               " (try 10m, 2h, 7d, 2026-03-01 or 2026-03-01T12:00:00Z)");
}

// ---- tail and query ----

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

void show(const Context& context, const ledger::Record& record) {
  if (context.wants_json) return print(ledger::to_line(record));
  const ledger::Entry& entry = record.entry;
  const std::string code = padded(escape_for_display(entry.code), 17);
  std::string line = dim(show_time(entry.time_ms)) + "  " + padded(std::to_string(record.seq), 6) + "  " +
                     padded(std::string(to_string(entry.stage)), 8) + "  " +
                     (entry.code == ledger::kOk ? green(code) : red(code)) + "  " +
                     padded(escape_for_display(entry.principal), 24) + "  " + escape_for_display(entry.method);
  std::string rest;
  // Of a connection the session is where it went; of a request it is a number that says nothing to a reader.
  if (entry.method == "egress.connect") line += " " + escape_for_display(entry.session);
  if (!entry.request_id.empty()) rest += "  request " + escape_for_display(entry.request_id);
  if (entry.peer_pid > 0) rest += "  pid " + std::to_string(entry.peer_pid);
  if (entry.payload_bytes != 0) rest += "  " + std::to_string(entry.payload_bytes) + " bytes";
  if (!entry.rule.empty()) rest += "  (" + escape_for_display(entry.rule) + ")";
  print(line + dim(rest));
}

Result<std::unique_ptr<ledger::Database>> open_ledger(const Context& context) {
  return ledger::Database::open(ledger::database_path(context.paths.state_dir), ledger::Database::Access::read);
}

struct QueryArguments {
  std::string since, until, principal, decision, method;
  std::uint64_t limit = 0;  // 0: all
};

Status query(Context& context, const QueryArguments& arguments) {
  ledger::Query wanted{.principal = arguments.principal, .method = arguments.method, .decision = arguments.decision};
  const std::int64_t now = SystemClock().unix_millis();
  context.exit_code = static_cast<int>(Exit::usage);
  if (!arguments.since.empty()) {
    TRY(wanted.since_ms, parse_time(arguments.since, now));
  }
  if (!arguments.until.empty()) {
    TRY(wanted.until_ms, parse_time(arguments.until, now));
  }
  TRY(ledger::check_decision(arguments.decision));
  context.exit_code = 0;
  wanted.limit = ledger::kMaxQueryRecords;
  TRY(const auto database, open_ledger(context));
  std::uint64_t shown = 0;
  for (;;) {
    TRY(const ledger::Page page, ledger::run_query(*database, wanted));
    for (const ledger::Record& record : page.records) {
      show(context, record);
      if (++shown == arguments.limit) return ok();
    }
    if (!page.has_more) return ok();
    wanted.cursor = page.cursor;
  }
}

struct TailArguments {
  std::uint64_t lines = 20;
  bool follows = false;
};

Status tail(Context& context, const TailArguments& arguments) {
  TRY(const auto database, open_ledger(context));
  TRY(const ledger::Tip tip, ledger::read_tip(*database));
  ledger::Query wanted{.limit = ledger::kMaxQueryRecords};
  wanted.cursor = tip.seq > arguments.lines ? tip.seq - arguments.lines : 0;
  for (;;) {
    TRY(const ledger::Page page, ledger::run_query(*database, wanted));
    for (const ledger::Record& record : page.records) show(context, record);
    if (std::fflush(stdout) != 0) return Error::from_errno("the output cannot be written", errno);
    wanted.cursor = page.cursor;
    if (page.has_more) continue;
    if (!arguments.follows) return ok();
    std::this_thread::sleep_for(kFollowDelay);
  }
}

// ---- verify and checkpoint ----

Status verify(Context& context, const std::string& against_file) {
  std::optional<ledger::Checkpoint> against;
  if (!against_file.empty()) {
    TRY(const std::string text, os::read_small_file(against_file, kMaxCheckpointBytes));
    auto parsed = ledger::parse_checkpoint(text);
    if (!parsed) {
      return Error::make(Code::invalid_params,
                         against_file + " is not what `sallyport audit checkpoint` wrote: " + parsed.error().message);
    }
    against = *parsed;
  }
  // A running warden knows exactly how far its files reach; asked first, because they only grow.
  std::optional<std::uint64_t> exported;
  if (const auto client = connect_warden(context.paths)) {
    if (const auto status = (*client)->call("warden.status")) {
      exported = status->value().get("ledger").get("exported_seq").as_uint();
    }
  }
  TRY(const ledger::Report report, ledger::verify_state(context.paths.state_dir, against, exported));
  if (!report.is_intact()) context.exit_code = static_cast<int>(Exit::failed);
  if (context.wants_json) {
    print(ledger::to_json(report));
    return ok();
  }
  for (const ledger::Finding& finding : report.findings) {
    print(red("FOUND") + "  " + escape_for_display(finding.where) + ", record " + std::to_string(finding.seq) + ": " +
          escape_for_display(finding.what));
  }
  if (report.finding_count > report.findings.size()) {
    print(red("FOUND") + "  " + std::to_string(report.finding_count - report.findings.size()) + " more");
  }
  if (!report.note.empty()) print(yellow("note") + "   " + report.note);
  print((report.is_intact() ? green("intact") : red("BROKEN")) + "  " + std::to_string(report.records) + " records, " +
        std::to_string(report.checkpoints) + " checkpoints, " + std::to_string(report.file_records) + " lines in " +
        std::to_string(report.files) + " files");
  if (report.is_intact() && !against) {
    print(
        dim("        a roll-back of everything shows only against a checkpoint kept elsewhere:"
            " sallyport audit checkpoint"));
  }
  return ok();
}

Status checkpoint(Context& context, const std::string& output) {
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const Answer answer, warden.client->call("audit.checkpoint"));
  TRY(const ledger::Checkpoint signed_now, ledger::read_checkpoint(answer.value()));
  const std::string json = ledger::to_json(signed_now);
  if (!output.empty()) TRY(os::write_private_file(output, json + "\n"));
  if (output.empty() || context.wants_json) {
    print(json);
  } else {
    print("record " + std::to_string(signed_now.seq) + " signed; keep " + escape_for_display(output) +
          " where this machine cannot write");
  }
  return ok();
}

// The warden has no part in it: whatever fails, it is not that it cannot be reached.
Status by_itself(Context& context, Status status) {
  if (!status && context.exit_code == 0) context.exit_code = static_cast<int>(Exit::failed);
  return status;
}

}  // namespace

void add_audit_commands(CLI::App& app, Context& context) {
  auto* audit = app.add_subcommand("audit", "Read and verify the audit log")->require_subcommand(1);

  auto* tail_command = audit->add_subcommand("tail", "Show the last records");
  const auto tail_arguments = std::make_shared<TailArguments>();
  tail_command->add_option("-n,--lines", tail_arguments->lines, "How many")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::uint64_t{0}, kMostAtOnce).description(""));
  tail_command->add_flag("-f,--follow", tail_arguments->follows, "And those that come");
  on_run(tail_command, context,
         [&context, tail_arguments] { return by_itself(context, tail(context, *tail_arguments)); });

  auto* query_command = audit->add_subcommand("query", "Find records");
  const auto wanted = std::make_shared<QueryArguments>();
  query_command->add_option("--since", wanted->since, "10m, 2h, 7d ago, or a date such as 2026-03-01T12:00:00Z")
      ->type_name("TIME");
  query_command->add_option("--until", wanted->until, "The same")->type_name("TIME");
  query_command->add_option("--principal", wanted->principal, "host, container/ID, or a prefix with *")
      ->type_name("WHO");
  query_command->add_option("--decision", wanted->decision, "allow, deny, or a code such as POLICY_DENIED")
      ->type_name("WHAT");
  query_command->add_option("--method", wanted->method, "fs.read, or a prefix with *")->type_name("NAME");
  query_command->add_option("--limit", wanted->limit, "At most so many")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, kMostAtOnce).description(""));
  on_run(query_command, context, [&context, wanted] { return by_itself(context, query(context, *wanted)); });

  auto* verify_command = audit->add_subcommand("verify", "Find what was changed, removed, reordered or cut off");
  const auto against = std::make_shared<std::string>();
  verify_command->add_option("--against", *against, "A checkpoint that was kept elsewhere: finds a roll-back too")
      ->type_name("FILE");
  on_run(verify_command, context, [&context, against] { return by_itself(context, verify(context, *against)); });

  auto* checkpoint_command = audit->add_subcommand("checkpoint", "Sign the end of the log, to be kept elsewhere");
  const auto output = std::make_shared<std::string>();
  checkpoint_command->add_option("--output", *output, "Write it to a file")->type_name("FILE");
  on_run(checkpoint_command, context, [&context, output] { return checkpoint(context, *output); });
}

}  // namespace sallyport::cli

#include "ledger/query.h"

#include <algorithm>
#include <string_view>

#include "ledger/limits.h"

namespace sallyport::ledger {
namespace {

bool fits(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return true;
  if (pattern.ends_with('*')) return text.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == text;
}

bool fits_decision(std::string_view wanted, const Entry& entry) {
  if (wanted.empty()) return true;
  if (wanted == "allow") return entry.stage == Stage::decision && entry.code == kOk;
  if (wanted == "deny") return entry.stage == Stage::decision && entry.code != kOk;
  return entry.code == wanted;
}

bool fits_all(const Query& query, const Entry& entry) {
  return entry.time_ms >= query.since_ms && entry.time_ms <= query.until_ms && fits(query.principal, entry.principal) &&
         fits(query.method, entry.method) && fits_decision(query.decision, entry);
}

// Of its JSON at the most: quotes and backslashes take two bytes.
std::size_t bytes_of(const Entry& entry) {
  return 512 + 2 * (entry.principal.size() + entry.session.size() + entry.request_id.size() + entry.method.size() +
                    entry.code.size() + entry.rule.size());
}

}  // namespace

Status check_decision(std::string_view decision) {
  constexpr std::string_view kOthers[] = {"", "allow", "deny", kOk, "UNKNOWN"};
  const bool is_known = std::find(std::begin(kOthers), std::end(kOthers), decision) != std::end(kOthers);
  if (is_known || code_from_string(decision)) return ok();
  return Error::make(Code::invalid_params, "no decision is called '" + escape_for_display(decision) +
                                               "'; there are allow, deny, OK, UNKNOWN and the error codes");
}

Result<Page> run_query(Database& database, const Query& query) {
  const std::int64_t limit = std::clamp<std::int64_t>(query.limit, 1, kMaxQueryRecords);
  Page page;
  page.cursor = query.cursor;
  TRY(const Tip tip, read_tip(database));
  page.last_seq = tip.seq;
  TRY(Statement select,
      database.prepare("SELECT " SALLYPORT_RECORD_COLUMNS " FROM audit WHERE seq > ? ORDER BY seq LIMIT ?"));
  select.bind(static_cast<std::int64_t>(std::min(query.cursor, tip.seq))).bind(kMaxQueryScan);
  std::size_t bytes = 0;
  while (std::ssize(page.records) < limit && bytes < kMaxPageBytes) {
    TRY(const bool has_row, select.step());
    if (!has_row) break;
    Record record = read_record(select);
    page.cursor = record.seq;
    if (!fits_all(query, record.entry)) continue;
    bytes += bytes_of(record.entry);
    page.records.push_back(std::move(record));
  }
  page.has_more = page.cursor < page.last_seq;
  return page;
}

void write_page(wire::JsonWriter& json, const Page& page) {
  json.begin_object().key("records").begin_array();
  for (const Record& record : page.records) write_record(json, record);
  json.end_array().member("cursor", page.cursor).member("last_seq", page.last_seq).member("has_more", page.has_more);
  json.end_object();
}

}  // namespace sallyport::ledger

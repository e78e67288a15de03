// Looking things up in the audit chain, a page at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/base.h"
#include "ledger/chain.h"

namespace sallyport::ledger {

struct Query {
  std::int64_t since_ms = std::numeric_limits<std::int64_t>::min();
  std::int64_t until_ms = std::numeric_limits<std::int64_t>::max();
  std::string principal = {};  // exact, or a prefix with '*' behind it; empty: all
  std::string method = {};     // the same
  std::string decision = {};   // "allow", "deny", or an error code; empty: all
  std::int64_t limit = 100;    // 1 to kMaxQueryRecords
  std::uint64_t cursor = 0;    // only records behind this one
};

struct Page {
  std::vector<Record> records;  // in the order of the chain
  std::uint64_t cursor = 0;     // goes on behind this page
  std::uint64_t last_seq = 0;   // where the chain ends
  bool has_more = false;        // there is something behind the cursor; it need not match
};

// INVALID_PARAMS if `decision` is none of what a query can look for.
Status check_decision(std::string_view decision);

// Looks at no more than kMaxQueryScan records: a page may be short, or empty, and still have more behind it.
Result<Page> run_query(Database& database, const Query& query);

// {"records":[...],"cursor":n,"last_seq":n,"has_more":bool}
void write_page(wire::JsonWriter& json, const Page& page);

}  // namespace sallyport::ledger

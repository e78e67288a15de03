// One line of the audit chain: what was decided or done, for whom, and the hash that ties it to the line
// before. No I/O. The byte formats are written down in docs/audit.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/base.h"
#include "wire/crypto.h"
#include "wire/json.h"

namespace sallyport::ledger {

using wire::Digest;

enum class Durability : std::uint8_t { buffered = 1, durable = 2 };
enum class Stage : std::uint8_t {
  decision = 1,  // may it be done?
  outcome = 2,   // what came of it
  event = 3,     // anything else worth a line: a change of state, a note of the ledger itself
};
std::string_view to_string(Durability durability);
std::string_view to_string(Stage stage);

inline constexpr std::string_view kOk = "OK";

// What is to be recorded. Never holds content: a payload is there as size and hash.
struct Entry {
  std::int64_t time_ms = 0;  // 0: the time at which it is submitted
  Durability durability = Durability::buffered;
  Stage stage = Stage::event;
  std::string principal;
  std::int64_t peer_pid = -1;
  std::string session;
  std::string request_id;
  std::string method;
  std::string code{kOk};  // or the error's: "POLICY_DENIED"
  std::string rule;       // which rule decided, where one did
  std::optional<Digest> payload_sha256;
  std::uint64_t payload_bytes = 0;

  // A payload that the writer thread hashes and then forgets; fills the two fields above.
  std::string unhashed_payload;
};

struct Record {
  std::uint64_t seq = 0;  // 1, 2, 3 ...
  Entry entry;
  Digest prev{};  // the hash of record seq - 1; zeros for the first
  Digest hash{};
};

// Brings an entry into the form that is hashed: texts are valid UTF-8 without control characters and at
// most kMaxFieldBytes long, the payload is hashed. Doing it twice changes nothing.
void normalise(Entry& entry);
// Of that, only the payload's part.
void hash_payload(Entry& entry);

// SHA-256 over an encoding in which no two different records look the same.
Digest hash_of(const Record& record);

// The JSON object of an exported line, without its newline. Every record has exactly one spelling.
void write_record(wire::JsonWriter& json, const Record& record);
std::string to_line(const Record& record);
// The reverse. Refuses any other spelling of the same record; does not check the hash.
Result<Record> parse_line(wire::Decoder& decoder, std::string_view line);

// 64 hexadecimal digits, lower case.
std::optional<Digest> digest_from_hex(std::string_view text);

}  // namespace sallyport::ledger

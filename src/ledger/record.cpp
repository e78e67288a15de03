#include "ledger/record.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "ledger/limits.h"

namespace sallyport::ledger {
namespace {

// Names the format: a hash made for anything else cannot be passed off as a record's.
constexpr std::string_view kRecordTag{"sallyport audit 1\0", 18};

// Every text of a record, in the order in which they are hashed.
constexpr std::array kTexts = {&Entry::principal, &Entry::session, &Entry::request_id,
                               &Entry::method,    &Entry::code,    &Entry::rule};

void append_be64(Bytes& out, std::uint64_t value) {
  std::uint8_t* to = out.extend(8);
  for (int shift = 56; shift >= 0; shift -= 8) *to++ = static_cast<std::uint8_t>(value >> shift);
}

bool is_plain(std::string_view text) {
  return text.size() <= kMaxFieldBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void normalise(std::string& text) {
  if (is_plain(text)) return;
  // What is already safe must stay as it is: escaping again would change it, and with it the hash.
  std::string safe;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) ++end;
    const std::string_view point(text.data() + i, end - i);
    const std::string shown =
        point.size() == 1 && point[0] >= ' ' && point[0] <= '~' ? std::string(point) : escape_for_display(point);
    if (safe.size() + shown.size() > kMaxFieldBytes) break;
    safe += shown;
    i = end;
  }
  text = std::move(safe);
}

std::optional<Durability> durability_from(std::string_view text) {
  for (const auto durability : {Durability::buffered, Durability::durable}) {
    if (text == to_string(durability)) return durability;
  }
  return std::nullopt;
}

std::optional<Stage> stage_from(std::string_view text) {
  for (const auto stage : {Stage::decision, Stage::outcome, Stage::event}) {
    if (text == to_string(stage)) return stage;
  }
  return std::nullopt;
}

std::string text_of(wire::Value value) { return std::string(value.as_string().value_or("")); }

}  // namespace

std::string_view to_string(Durability durability) { return durability == Durability::durable ? "durable" : "buffered"; }

std::string_view to_string(Stage stage) {
  return stage == Stage::decision ? "decision" : stage == Stage::outcome ? "outcome" : "event";
}

void normalise(Entry& entry) {
  for (const auto text : kTexts) normalise(entry.*text);
  hash_payload(entry);
}

void hash_payload(Entry& entry) {
  if (entry.unhashed_payload.empty()) return;
  entry.payload_sha256 = wire::sha256(as_bytes(entry.unhashed_payload));
  entry.payload_bytes = entry.unhashed_payload.size();
  entry.unhashed_payload = {};
}

Digest hash_of(const Record& record) {
  const Entry& entry = record.entry;
  Bytes bytes;
  bytes.reserve(512);
  bytes.append(kRecordTag);
  append_be64(bytes, record.seq);
  bytes.append(record.prev);
  append_be64(bytes, static_cast<std::uint64_t>(entry.time_ms));
  bytes.push_back(static_cast<char>(entry.durability));
  bytes.push_back(static_cast<char>(entry.stage));
  append_be64(bytes, static_cast<std::uint64_t>(entry.peer_pid));
  for (const auto text : kTexts) {
    append_be64(bytes, (entry.*text).size());
    bytes.append(entry.*text);
  }
  append_be64(bytes, entry.payload_bytes);
  bytes.push_back(entry.payload_sha256 ? '\1' : '\0');
  if (entry.payload_sha256) bytes.append(*entry.payload_sha256);
  return wire::sha256(bytes.view());
}

void write_record(wire::JsonWriter& json, const Record& record) {
  const Entry& entry = record.entry;
  json.begin_object()
      .member("seq", record.seq)
      .member("time_ms", entry.time_ms)
      .member("class", to_string(entry.durability))
      .member("stage", to_string(entry.stage))
      .member("principal", entry.principal)
      .member("peer", entry.peer_pid)
      .member("session", entry.session)
      .member("request", entry.request_id)
      .member("method", entry.method)
      .member("code", entry.code)
      .member("rule", entry.rule)
      .member("payload_bytes", entry.payload_bytes);
  if (entry.payload_sha256) json.member("payload_sha256", to_hex(*entry.payload_sha256));
  json.member("prev", to_hex(record.prev)).member("hash", to_hex(record.hash)).end_object();
}

std::string to_line(const Record& record) {
  return wire::to_json([&](wire::JsonWriter& json) { write_record(json, record); });
}

Result<Record> parse_line(wire::Decoder& decoder, std::string_view line) {
  const auto malformed = [] { return Error::make(Code::invalid_request, "not an audit record"); };
  if (line.size() > kMaxLineBytes) return malformed();
  TRY(const wire::Document document, decoder.parse(line));
  const wire::Value root = document.root();
  const auto seq = root.get("seq").as_uint();
  const auto durability = durability_from(root.get("class").as_string().value_or(""));
  const auto stage = stage_from(root.get("stage").as_string().value_or(""));
  const auto prev = digest_from_hex(root.get("prev").as_string().value_or(""));
  const auto hash = digest_from_hex(root.get("hash").as_string().value_or(""));
  if (!seq || !durability || !stage || !prev || !hash) return malformed();
  Record record;
  record.seq = *seq;
  record.prev = *prev;
  record.hash = *hash;
  Entry& entry = record.entry;
  entry.time_ms = root.get("time_ms").as_int().value_or(0);
  entry.durability = *durability;
  entry.stage = *stage;
  entry.principal = text_of(root.get("principal"));
  entry.peer_pid = root.get("peer").as_int().value_or(0);
  entry.session = text_of(root.get("session"));
  entry.request_id = text_of(root.get("request"));
  entry.method = text_of(root.get("method"));
  entry.code = text_of(root.get("code"));
  entry.rule = text_of(root.get("rule"));
  entry.payload_bytes = root.get("payload_bytes").as_uint().value_or(0);
  entry.payload_sha256 = digest_from_hex(root.get("payload_sha256").as_string().value_or(""));
  // The one spelling: catches unknown and missing fields, other types, and spaces alike.
  if (to_line(record) != line) return malformed();
  return record;
}

std::optional<Digest> digest_from_hex(std::string_view text) {
  const auto bytes = from_hex(text);
  Digest digest{};
  if (!bytes || bytes->size() != digest.size() || to_hex(as_bytes(*bytes)) != text) return std::nullopt;
  std::memcpy(digest.data(), bytes->data(), digest.size());
  return digest;
}

}  // namespace sallyport::ledger

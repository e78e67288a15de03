#include "ledger/record.h"

#include <set>

#include "fixture.h"
#include "ledger/limits.h"

namespace sallyport::ledger {
namespace {

Record sample() {
  Record record;
  record.seq = 3;
  record.entry = entry("fs.read");
  record.entry.time_ms = 1'700'000'000'123;
  record.entry.payload_sha256 = wire::sha256(as_bytes("payload"));
  record.entry.payload_bytes = 7;
  record.prev = wire::sha256(as_bytes("before"));
  record.hash = hash_of(record);
  return record;
}

TEST(Record, HashIsTheOneThatTheDocumentationShows) {
  Record record;
  record.seq = 1;
  record.entry.time_ms = 1'700'000'000'000;
  record.entry.durability = Durability::durable;
  record.entry.stage = Stage::decision;
  record.entry.principal = "host";
  record.entry.peer_pid = 42;
  record.entry.session = "control/0";
  record.entry.request_id = "1";
  record.entry.method = "warden.reload";
  EXPECT_EQ(to_hex(hash_of(record)), "d9d7e92ca2fdb57c119002bbd70fd5c7332134eb9181e487de8a40fef504f173");
}

TEST(Record, EveryFieldIsCoveredByTheHash) {
  const Record original = sample();
  std::vector<Record> changed(14, original);
  changed[1].seq = 4;
  changed[2].prev[31] ^= 1;
  changed[3].entry.time_ms++;
  changed[4].entry.durability = Durability::durable;
  changed[5].entry.stage = Stage::outcome;
  changed[6].entry.principal = "host";
  changed[7].entry.peer_pid = 43;
  changed[8].entry.session = "x";
  changed[9].entry.request_id = "8";
  changed[10].entry.code = "POLICY_DENIED";
  changed[11].entry.rule = "r";
  changed[12].entry.payload_bytes = 8;
  changed[13].entry.payload_sha256.reset();
  std::set<Digest> hashes;
  for (const Record& record : changed) hashes.insert(hash_of(record));
  EXPECT_EQ(hashes.size(), changed.size());
}

TEST(Record, MovingBytesFromOneFieldToTheNextChangesTheHash) {
  Record one = sample(), other = sample();
  one.entry.session = "ab";
  one.entry.request_id = "c";
  other.entry.session = "a";
  other.entry.request_id = "bc";
  EXPECT_NE(hash_of(one), hash_of(other));
}

TEST(Record, ALineReadsBackAsTheSameRecord) {
  wire::Decoder decoder;
  for (Record record : {sample(), Record()}) {
    record.hash = hash_of(record);
    const auto read = parse_line(decoder, to_line(record));
    ASSERT_TRUE(read) << read.error().describe();
    EXPECT_EQ(hash_of(*read), record.hash);
    EXPECT_EQ(to_line(*read), to_line(record));
  }
}

TEST(Record, AnyOtherSpellingOfALineIsRefused) {
  wire::Decoder decoder;
  const std::string line = to_line(sample());
  EXPECT_FALSE(parse_line(decoder, line + " "));
  EXPECT_FALSE(parse_line(decoder, "{\"extra\":1," + line.substr(1)));
  EXPECT_FALSE(parse_line(decoder, "{}"));
  EXPECT_FALSE(parse_line(decoder, "[]"));
  EXPECT_FALSE(parse_line(decoder, ""));
  std::string escaped = line;
  escaped.replace(escaped.find("fs.read"), 1, "\\u0066");
  EXPECT_FALSE(parse_line(decoder, escaped));
  EXPECT_FALSE(parse_line(decoder, std::string(kMaxLineBytes + 1, ' ')));
}

TEST(Record, AttackInjectALineThroughAField) {
  Record record = sample();
  record.entry.method = "x\"}\n{\"seq\":4,\"code\":\"OK\"}\r\n\x1b[2J\xe2\x80\xae";
  normalise(record.entry);
  record.hash = hash_of(record);
  const std::string line = to_line(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_EQ(line.find("\xe2\x80\xae"), std::string::npos);
  wire::Decoder decoder;
  const auto read = parse_line(decoder, line);
  ASSERT_TRUE(read);
  EXPECT_EQ(hash_of(*read), record.hash);
  EXPECT_EQ(read->seq, 3U);
}

TEST(Record, BytesThatAreNoTextAreMadeText) {
  Record record = sample();
  record.entry.rule = "\xff\xfe\xc3\x28 ok \xc3\xa9";
  normalise(record.entry);
  wire::Decoder decoder;
  const auto read = parse_line(decoder, to_line(record));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->entry.rule, record.entry.rule);
  EXPECT_NE(record.entry.rule.find("\xc3\xa9"), std::string::npos);
}

TEST(Record, NormalisingTwiceChangesNothing) {
  for (const std::string& text : {std::string("plain"), std::string("quote\" back\\slash\n"), std::string(1000, '\xff'),
                                  std::string(1000, 'a')}) {
    Entry once;
    once.rule = text;
    normalise(once);
    Entry twice = once;
    normalise(twice);
    EXPECT_EQ(once.rule, twice.rule);
    EXPECT_LE(once.rule.size(), kMaxFieldBytes);
  }
}

TEST(Record, APayloadIsHashedAndForgotten) {
  Entry with = entry("fs.write");
  with.unhashed_payload = "the secret content";
  normalise(with);
  EXPECT_EQ(with.payload_sha256, wire::sha256(as_bytes("the secret content")));
  EXPECT_EQ(with.payload_bytes, 18U);
  EXPECT_TRUE(with.unhashed_payload.empty());
  Record record;
  record.entry = with;
  EXPECT_EQ(to_line(record).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace sallyport::ledger

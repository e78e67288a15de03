#include "ledger/queue.h"

#include <gtest/gtest.h>

#include "fixture.h"
#include "ledger/limits.h"

namespace sallyport::ledger {
namespace {

std::vector<std::string> methods_of(const Submission& submission) {
  std::vector<std::string> methods;
  for (const Entry& each : submission.entries) methods.push_back(each.method);
  EXPECT_TRUE(submission.packed.for_each([&](const EntryView& each) {
    methods.emplace_back(each.method);
    return ok();
  }));
  return methods;
}

TEST(PackedEntries, KeepAllOfAnEntry) {
  Entry given = entry("cache.get", Stage::outcome);
  given.time_ms = 17;
  given.code = "POLICY_DENIED";
  given.rule = "a rule";
  given.payload_bytes = 3;
  given.payload_sha256 = wire::sha256(as_bytes("abc"));
  PackedEntries packed;
  packed.add(entry("before"));
  packed.add(given);
  packed.add(entry("behind"));
  ASSERT_EQ(packed.count(), 3U);
  std::vector<Entry> all;
  ASSERT_TRUE(packed.for_each([&](const EntryView& each) {
    all.push_back(to_entry(each));
    return ok();
  }));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].time_ms, 17);
  EXPECT_EQ(all[1].stage, Stage::outcome);
  EXPECT_EQ(all[1].durability, Durability::buffered);
  EXPECT_EQ(all[1].principal, given.principal);
  EXPECT_EQ(all[1].peer_pid, given.peer_pid);
  EXPECT_EQ(all[1].session, given.session);
  EXPECT_EQ(all[1].request_id, given.request_id);
  EXPECT_EQ(all[1].method, "cache.get");
  EXPECT_EQ(all[1].code, "POLICY_DENIED");
  EXPECT_EQ(all[1].rule, "a rule");
  EXPECT_EQ(all[1].payload_bytes, 3U);
  EXPECT_EQ(all[1].payload_sha256, given.payload_sha256);
  EXPECT_EQ(all[2].code, kOk);
  EXPECT_EQ(all[2].payload_sha256, std::nullopt);
}

TEST(Queue, KeepsTheOrderOfEntriesAndSubmissions) {
  Queue queue;
  for (const char* method : {"a", "b"}) ASSERT_TRUE(queue.push(entry(method)));
  Submission durable;
  durable.entries.push_back(entry("c"));
  ASSERT_TRUE(queue.push(std::move(durable)));
  for (const char* method : {"d", "e"}) ASSERT_TRUE(queue.push(entry(method)));
  EXPECT_EQ(queue.size(), 5U);
  const Queue::Batch batch = queue.take({});
  std::vector<std::string> all;
  for (const Submission& each : batch.submissions) {
    for (const std::string& method : methods_of(each)) all.push_back(method);
  }
  EXPECT_EQ(all, (std::vector<std::string>{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(queue.size(), 0U);
}

TEST(Queue, CountsEntriesThatLieTogetherOneByOne) {
  Queue queue;
  for (std::size_t i = 0; i < kMaxBacklog; ++i) ASSERT_TRUE(queue.push(entry("x")));
  EXPECT_FALSE(queue.push(entry("x")));
  EXPECT_EQ(queue.size(), kMaxBacklog);
  std::size_t taken = 0;
  while (queue.size() > 0) {
    Queue::Batch batch = queue.take({});
    std::size_t items = 0;
    for (const Submission& each : batch.submissions) items += methods_of(each).size();
    EXPECT_LE(items, kMaxGroup);
    taken += items;
  }
  EXPECT_EQ(taken, kMaxBacklog);
}

TEST(Queue, TakesBackEntriesThatLieTogetherInFrontOfOthers) {
  Queue queue;
  for (const char* method : {"a", "b"}) ASSERT_TRUE(queue.push(entry(method)));
  queue.put_back(queue.take(SteadyTime()).submissions);
  ASSERT_TRUE(queue.push(entry("c")));
  EXPECT_EQ(queue.size(), 3U);
  queue.close();
  const Queue::Batch batch = queue.take({});
  std::vector<std::string> all;
  for (const Submission& each : batch.submissions) {
    for (const std::string& method : methods_of(each)) all.push_back(method);
  }
  EXPECT_EQ(all, (std::vector<std::string>{"a", "b", "c"}));
}

// As those of a container that floods while the disk is full.
TEST(Queue, KeepsAFewPayloadsAndOfTheRestTheHash) {
  Queue queue;
  const std::string payload(1U << 20, 'x');
  Entry large = entry("x");
  large.unhashed_payload = payload;
  constexpr std::size_t kPushed = 64;
  for (std::size_t i = 0; i < kPushed; ++i) {
    if (i % 2 == 0) {
      ASSERT_TRUE(queue.push(large));
      continue;
    }
    Submission submission{.durability = Durability::buffered};
    submission.entries.push_back(large);
    ASSERT_TRUE(queue.push(std::move(submission)));
  }
  const Queue::Batch batch = queue.take({});
  std::size_t kept = 0, seen = 0;
  const auto look = [&](const EntryView& each) {
    ++seen;
    kept += each.unhashed_payload.size();
    if (!each.unhashed_payload.empty()) return ok();
    EXPECT_EQ(each.payload_bytes, payload.size());
    EXPECT_EQ(each.payload_sha256, wire::sha256(as_bytes(payload)));
    return ok();
  };
  for (const Submission& each : batch.submissions) {
    for (const Entry& single : each.entries) ASSERT_TRUE(look(single));
    ASSERT_TRUE(each.packed.for_each(look));
  }
  EXPECT_EQ(seen, kPushed);
  EXPECT_EQ(kept, kMaxPayloadBytes);
}

}  // namespace
}  // namespace sallyport::ledger

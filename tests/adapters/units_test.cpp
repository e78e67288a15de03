#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "adapters/bulk.h"
#include "adapters/credentials.h"
#include "adapters/filter.h"
#include "adapters/sse.h"
#include "adapters/vector_math.h"
#include "adapters/vector_store.h"
#include "platform/limits.h"
#include "support/daemon.h"

namespace sallyport::adapters {
namespace {

std::vector<std::string> read_all(const std::vector<std::string>& pieces) {
  SseReader reader;
  std::vector<std::string> events;
  for (const std::string& piece : pieces) {
    EXPECT_TRUE(reader.feed(piece, [&](std::string_view data) { events.emplace_back(data); }));
  }
  return events;
}

TEST(SseReader, FindsEventsHoweverTheyAreCut) {
  const std::string stream = ": hello\n\nevent: x\ndata: one\n\ndata:two\r\ndata: lines\r\n\r\ndata: [DONE]\n\n";
  const std::vector<std::string> expected = {"one", "two\nlines", "[DONE]"};
  EXPECT_EQ(read_all({stream}), expected);
  std::vector<std::string> bytes;
  for (const char c : stream) bytes.emplace_back(1, c);
  EXPECT_EQ(read_all(bytes), expected);
}

TEST(SseReader, AttackAnEventWithoutAnEndIsRefused) {
  SseReader reader;
  const std::string block(1 << 16, 'x');
  Status status = ok();
  for (int i = 0; i < 100 && status; ++i) status = reader.feed(block, [](std::string_view) {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::payload_too_large);
}

TEST(Utf8, KnowsTextFromBytes) {
  EXPECT_TRUE(is_utf8("plain ünï \xf0\x9f\x98\x80"));
  for (const char* bad : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82", "\xf4\x90\x80\x80"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(VectorMath, AgreesWithPlainArithmeticAtEveryLengthAndAlignment) {
  for (const std::size_t count : {1U, 7U, 8U, 15U, 16U, 17U, 33U, 1536U}) {
    std::vector<float> a(count), b(count);
    double dot = 0, self = 0;
    for (std::size_t i = 0; i < count; ++i) {
      a[i] = static_cast<float>(std::sin(static_cast<double>(i)));
      b[i] = static_cast<float>(std::cos(static_cast<double>(i) * 0.7));
      dot += double{a[i]} * b[i];
      self += double{b[i]} * b[i];
    }
    std::vector<std::uint8_t> bytes(count * sizeof(float) + 1);
    std::memcpy(bytes.data() + 1, b.data(), count * sizeof(float));
    const Products sums = products(a.data(), bytes.data() + 1, count);
    EXPECT_NEAR(sums.dot, dot, 1e-3) << count;
    EXPECT_NEAR(sums.self, self, 1e-3) << count;
  }
  const float bad[] = {1.0F, std::nanf("")};
  EXPECT_FALSE(are_comparable(reinterpret_cast<const std::uint8_t*>(bad), 2));
  const float large[] = {1e15F, -1e16F};
  EXPECT_TRUE(are_comparable(reinterpret_cast<const std::uint8_t*>(large), 1));
  EXPECT_FALSE(are_comparable(reinterpret_cast<const std::uint8_t*>(large), 2));
}

bool holds(const char* filter, const char* metadata) {
  wire::Decoder decoder;
  const auto parsed_filter = decoder.parse(filter), parsed_metadata = decoder.parse(metadata);
  EXPECT_TRUE(check_filter(parsed_filter->root())) << filter;
  return matches(parsed_filter->root(), parsed_metadata->root());
}

TEST(Filter, ComparesAsItsOperatorsSay) {
  const char* metadata = R"({"year":2026,"kind":"note","done":false,"score":0.5})";
  EXPECT_TRUE(holds(R"({"year":{"eq":2026},"kind":{"ne":"mail"}})", metadata));
  EXPECT_TRUE(holds(R"({"year":{"gt":2000,"lt":2027}})", metadata));
  EXPECT_TRUE(holds(R"({"kind":{"in":["mail","note"]}})", metadata));
  EXPECT_TRUE(holds(R"({"missing":{"nin":["x"]}})", metadata));
  EXPECT_FALSE(holds(R"({"missing":{"lt":1}})", metadata));
  EXPECT_FALSE(holds(R"({"kind":{"lt":5}})", metadata)) << "a text is not less than a number";
  EXPECT_FALSE(holds(R"({"done":{"eq":true}})", metadata));
}

TEST(Filter, AnythingElseIsRefused) {
  wire::Decoder decoder;
  for (const char* bad :
       {R"({"a":1})", R"({"a":{}})", R"({"a":{"regex":"x"}})", R"({"a":{"in":1}})", R"({"a":{"eq":[1]}})"}) {
    const auto filter = decoder.parse(bad);
    EXPECT_FALSE(check_filter(filter->root())) << bad;
  }
}

// Everybody waits while the metadata of all vectors is compared with all of them.
TEST(Filter, ComparesWithSoManyValuesOnly) {
  const auto filter = [](std::size_t values) {
    std::string list;
    for (std::size_t i = 0; i < values; ++i) list += i == 0 ? "7" : ",7";
    return R"({"x":{"nin":[)" + list + "]}}";
  };
  wire::Decoder decoder;
  EXPECT_TRUE(check_filter(decoder.parse(filter(platform::kMaxFilterValues))->root()));
  EXPECT_FALSE(check_filter(decoder.parse(filter(platform::kMaxFilterValues + 1))->root()));
}

TEST(Vectors, AreNotLookedAtForSomebodyWhoHasGivenUp) {
  const sallyport::testing::TemporaryDirectory directory;
  VectorStore store(directory.path());
  ASSERT_TRUE(store.open());
  const Scope scope{"tenant", "space"};
  const VectorBatch batch{{"a"}, {}, std::string(4, '\0'), 1};
  ASSERT_TRUE(store.upsert(scope, batch));
  GivenUp is_given_up = false;
  const auto before = store.count(scope, {}, is_given_up);
  ASSERT_TRUE(before);
  EXPECT_EQ(*before, 1);
  is_given_up = true;
  const auto count = store.count(scope, {}, is_given_up);
  const auto found = store.search(scope, {std::string(4, '\0'), 1, 10, {}}, is_given_up);
  ASSERT_FALSE(count || found);
  EXPECT_EQ(count.error().code, Code::cancelled);
  EXPECT_EQ(found.error().code, Code::cancelled);
}

TEST(Credentials, GoNowhereTheyAreNotMeantFor) {
  platform::Credential credential;
  credential.hosts = {"api.example.com"};
  credential.paths = {"/v1/*"};
  platform::Address address{"https", "api.example.com", "/v1", 0};
  EXPECT_TRUE(check_destination(credential, address, "/v1/chat"));
  EXPECT_FALSE(check_destination(credential, address, "/admin"));
  address.host = "api.example.com.evil";
  EXPECT_FALSE(check_destination(credential, address, "/v1/chat"));
}

}  // namespace
}  // namespace sallyport::adapters

#include "wire/schema.h"

#include <gtest/gtest.h>

namespace sallyport::wire {
namespace {

constexpr Field kInner[] = {{.name = "deep", .type = Type::boolean, .required = true}};
constexpr Field kAll[] = {
    {.name = "flag", .type = Type::boolean},
    {.name = "count", .type = Type::integer, .least = 1, .most = 10},
    {.name = "ratio", .type = Type::number},
    {.name = "name", .type = Type::string, .least = 2, .most = 4},
    {.name = "object", .type = Type::object},
    {.name = "inner", .type = Type::object, .fields = kInner},
    {.name = "list", .type = Type::array, .most = 2},
    {.name = "words", .type = Type::string_array, .least = 1},
    {.name = "any", .type = Type::any},
};
constexpr Field kOne[] = {{.name = "path", .type = Type::string, .required = true}};

// "" if the parameters are fine, else the path of the field that is not.
std::string offender(Schema schema, std::string_view params) {
  Decoder decoder;
  auto document = decoder.parse(params);
  EXPECT_TRUE(document) << params;
  const Status checked = check_params(schema, document->root());
  if (checked) return "";
  EXPECT_EQ(checked.error().code, Code::invalid_params);
  auto details = decoder.parse(checked.error().details_json);
  EXPECT_TRUE(details) << checked.error().details_json;
  return std::string(details->root().get("field").as_string().value_or("?"));
}

TEST(Schema, AcceptsEveryTypeWithinItsLimits) {
  EXPECT_EQ(offender(kAll, R"({"flag":false,"count":10,"ratio":1,"name":"abcd","object":{"x":1},"inner":{"deep":true},
                              "list":[1,{}],"words":["a"],"any":null})"),
            "");
  EXPECT_EQ(offender(kAll, "{}"), "");
}

TEST(Schema, AbsentParametersCountAsAnEmptyObject) {
  EXPECT_TRUE(check_params(kAll, Value()));
  const Status checked = check_params(kOne, Value());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "params.path: is missing");
}

TEST(Schema, NamesThePathOfTheOffendingField) {
  EXPECT_EQ(offender(kAll, R"({"flag":0})"), "params.flag");
  EXPECT_EQ(offender(kAll, R"({"flag":"true"})"), "params.flag");
  EXPECT_EQ(offender(kAll, R"({"count":0})"), "params.count");
  EXPECT_EQ(offender(kAll, R"({"count":11})"), "params.count");
  EXPECT_EQ(offender(kAll, R"({"count":1.0})"), "params.count");
  EXPECT_EQ(offender(kAll, R"({"count":18446744073709551615})"), "params.count");
  EXPECT_EQ(offender(kAll, R"({"ratio":"1"})"), "params.ratio");
  EXPECT_EQ(offender(kAll, R"({"name":"a"})"), "params.name");
  EXPECT_EQ(offender(kAll, R"({"name":"abcde"})"), "params.name");
  EXPECT_EQ(offender(kAll, R"({"object":[]})"), "params.object");
  EXPECT_EQ(offender(kAll, R"({"inner":{}})"), "params.inner.deep");
  EXPECT_EQ(offender(kAll, R"({"inner":{"deep":1}})"), "params.inner.deep");
  EXPECT_EQ(offender(kAll, R"({"inner":{"deep":true,"more":1}})"), "params.inner.more");
  EXPECT_EQ(offender(kAll, R"({"list":[1,2,3]})"), "params.list");
  EXPECT_EQ(offender(kAll, R"({"list":{}})"), "params.list");
  EXPECT_EQ(offender(kAll, R"({"words":[]})"), "params.words");
  EXPECT_EQ(offender(kAll, R"({"words":["a",2]})"), "params.words[1]");
  EXPECT_EQ(offender(kAll, R"({"flag":null})"), "params.flag");
}

TEST(Schema, RefusesAnUnknownParameter) {
  EXPECT_EQ(offender(kOne, R"({"path":"x","extra":1})"), "params.extra");
  EXPECT_EQ(offender({}, R"({"a":1})"), "params.a");
}

TEST(Schema, DoesNotEchoANameThatIsNoIdentifier) {
  for (const char* name : {"a\\\"b", "a b", "\\u001b[2J", "a.b", "é"}) {
    EXPECT_EQ(offender(kOne, std::string(R"({"path":"x",")") + name + "\":1}"), "params.?") << name;
  }
  EXPECT_EQ(offender(kOne, R"({"path":"x",")" + std::string(65, 'a') + "\":1}"), "params.?");
}

}  // namespace
}  // namespace sallyport::wire

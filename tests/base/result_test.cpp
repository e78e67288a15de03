#include "base/result.h"

#include <gtest/gtest.h>

namespace sallyport {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error::make(Code::invalid_params, "odd");
  return n / 2;
}

Result<int> quarter(int n) {
  TRY(const int once, half(n));
  TRY(const int twice, half(once));
  return twice;
}

Status check(int n) {
  TRY(quarter(n));
  return ok();
}

TEST(Result, TryPassesTheValueOn) { EXPECT_EQ(*quarter(8), 2); }

TEST(Result, TryReturnsTheFirstError) {
  const auto result = quarter(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::invalid_params);
}

TEST(Result, TryWithOneArgumentChecksAStatus) {
  EXPECT_TRUE(check(4));
  EXPECT_FALSE(check(3));
}

TEST(Error, EveryCodeHasItsOwnNameAndComesBackFromIt) {
  for (int i = 0; i <= static_cast<int>(Code::internal_error); ++i) {
    const auto code = static_cast<Code>(i);
    EXPECT_EQ(code_from_string(to_string(code)), code);
  }
  EXPECT_FALSE(code_from_string("policy_denied"));
}

TEST(Error, FromErrnoNamesTheErrnoInItsDetails) {
  const Error error = Error::from_errno("open", ENOENT, "/secret/path");
  EXPECT_EQ(error.code, Code::io_error);
  EXPECT_EQ(error.details_json, R"({"errno":"ENOENT"})");
  EXPECT_EQ(error.message.find("/secret/path"), std::string::npos);
  EXPECT_NE(error.describe().find("/secret/path"), std::string::npos);
}

}  // namespace
}  // namespace sallyport

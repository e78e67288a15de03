#include "platform/operations.h"

#include <gtest/gtest.h>

namespace sallyport::platform {
namespace {

TEST(Operations, HaveTheDeadlinesThatAreDocumented) {
  const auto timeout = [](std::string_view method) { return find_operation(method)->timeout; };
  for (const Operation& operation : operations()) {
    if (operation.role == Role::cache) {
      EXPECT_EQ(operation.timeout, Millis(5'000)) << operation.method;
    }
    if (operation.role == Role::llm) {
      EXPECT_EQ(operation.timeout, Millis(300'000)) << operation.method;
    }
  }
  EXPECT_EQ(timeout("vector.search"), Millis(30'000));
  EXPECT_EQ(timeout("vector.upsert"), Millis(120'000));
  EXPECT_EQ(find_operation("cache.flushall"), nullptr);
}

}  // namespace
}  // namespace sallyport::platform

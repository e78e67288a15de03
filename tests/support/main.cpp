// The main of every test program. With SALLYPORT_MUST_WORK=1 a skipped test is a failed one: what a
// test needs of the machine is required, not hoped for.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace {

class SkipsFail final : public testing::EmptyTestEventListener {
  // Not OnTestPartResult: GoogleTest holds its lock there, and a failure added under it never returns.
  void OnTestEnd(const testing::TestInfo& test) override {
    if (test.result()->Skipped()) ADD_FAILURE() << "skipped under SALLYPORT_MUST_WORK";
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* must_work = std::getenv("SALLYPORT_MUST_WORK");
  if (must_work != nullptr && std::string_view(must_work) == "1") {
    testing::UnitTest::GetInstance()->listeners().Append(new SkipsFail);
  }
  return RUN_ALL_TESTS();
}

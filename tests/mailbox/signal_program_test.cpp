// sallyport-signal, inside a real container.
#include "mailbox/mail.h"

namespace sallyport::testing {
namespace {

TEST_F(Mail, TheProgramInsideRaisesASignal) {
  int code = -1;
  EXPECT_EQ(run("sallyport-signal test_note", &code), "");
  EXPECT_EQ(code, 0);
  EXPECT_TRUE(eventually([&] { return actions().size() == 1; }));
}

TEST_F(Mail, TheProgramInsideWaitsForTheAnswer) {
  int code = -1;
  const std::string out =
      run("echo '{\"text\":\"hi\"}' | sallyport-signal test_once --payload - --wait --timeout 60", &code);
  EXPECT_EQ(code, 0) << out;
  EXPECT_NE(out.find(R"("result":{"did":{"text":"hi"}})"), std::string::npos) << out;
}

TEST_F(Mail, TheProgramInsideTellsFailuresApart) {
  const auto code_of_run = [&](const std::string& script) {
    int code = -1;
    run(script, &code);
    return code;
  };
  const std::string wait = " --payload - --wait --timeout 60";
  EXPECT_EQ(code_of_run("echo '{\"text\":\"x\",\"fail\":true}' | sallyport-signal test_once" + wait), 1);
  EXPECT_EQ(code_of_run("echo '{\"no\":1}' | sallyport-signal test_once" + wait), 1);
  EXPECT_EQ(code_of_run("echo '{}' | sallyport-signal deploy --id " + id_of(9) + wait), 3);
  EXPECT_EQ(
      code_of_run("echo '{\"text\":\"x\",\"hold\":true}' | sallyport-signal test_human --payload - --wait --timeout 1"),
      5);
  for (const char* bad : {"", "{", "[]", "{\\\"a\\\":1}x", "{\\\"a\\\":01e}", "{a:1}", "null"}) {
    EXPECT_EQ(code_of_run("printf \"" + std::string(bad) + "\" | sallyport-signal test_once --payload - --wait"), 2)
        << bad;
  }
  // What only the warden sees is answered as well, under the name of its file.
  EXPECT_EQ(code_of_run("printf '{\"text\":\"\\377\"}' | sallyport-signal test_once" + wait), 1);
  EXPECT_EQ(code_of_run("echo '{\"text\":\"a\",\"text\":\"b\"}' | sallyport-signal test_once" + wait), 1);
  EXPECT_EQ(code_of_run("sallyport-signal"), 2);
  EXPECT_EQ(code_of_run("sallyport-signal Test_Note"), 2);
  EXPECT_EQ(code_of_run("sallyport-signal test_note --wait"), 2);
  EXPECT_EQ(code_of_run("sallyport-signal test_note --payload \"$unset\""), 2);
  EXPECT_EQ(code_of_run("ulimit -n 3; exec sallyport-signal test_note"), 4)
      << "and not looking for descriptors for ever";
  EXPECT_EQ(code_of_run("SALLYPORT_MAILBOX=/nowhere sallyport-signal test_note"), 4);
}

TEST_F(Mail, TheProgramInsideAsksForTheSameAnswerAgain) {
  const std::string script =
      "echo '{\"text\":\"x\"}' | sallyport-signal test_once --id " + id_of(3) + " --payload - --wait --timeout 60";
  int code = -1;
  const std::string first = run(script, &code);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(run(script, &code), first);
  EXPECT_EQ(acted(id_of(3)), 1);
}

}  // namespace
}  // namespace sallyport::testing

// Pods: made, attached, left alone, found again.
#include <unistd.h>

#include "pods.h"

namespace sallyport::testing {
namespace {

TEST_F(Pods, StartTheirAgentWithNoSignalIgnored) {
  make("agent", "sh -c \"kill -PIPE \\$\\$\"; echo pipe=$?; exec sleep 1000");
  auto client = attach("agent");
  ASSERT_TRUE(client && client->sees("pipe=141"));
  EXPECT_EQ(sallyport("pod kill agent --signal HUP").status, 0);
  ASSERT_TRUE(client->reads_to_the_end());
  EXPECT_EQ(client->told->exit_code, 129);
}

TEST_F(Pods, TellTheirExitStatusAfterTheFact) {
  make("quick", "echo done; exit 7");
  ASSERT_TRUE(becomes("quick", pod::Life::exited));
  EXPECT_NE(sallyport("pod ls").output.find("exited 7"), std::string::npos);
  EXPECT_EQ(sallyport("pod log quick").output, "done\r\n");
  const Ran waited = sallyport("pod wait quick");
  EXPECT_EQ(waited.status, 7);
  EXPECT_EQ(waited.output, "exited 7\n");
  EXPECT_FALSE(place("quick").exists()) << "collected, so gone";
  EXPECT_EQ(sallyport("pod wait quick").status, 1);
}

TEST_F(Pods, KeepTheStatusOfADaemonThatDiesAfterItsAgent) {
  make("quick", "exit 9");
  ASSERT_TRUE(becomes("quick", pod::Life::exited));
  ::kill(daemon_pid("quick"), SIGKILL);
  ASSERT_TRUE(becomes("quick", pod::Life::collectable));
  EXPECT_NE(sallyport("pod ls").output.find("exited 9"), std::string::npos);
  EXPECT_EQ(sallyport("pod new --name quick -- true").status, 1) << "the name is taken until the status is collected";
  EXPECT_EQ(sallyport("call pod.wait '{\"pod\":\"quick\"}'").status, 0);
  EXPECT_EQ(sallyport("pod wait quick").status, 9);
  EXPECT_FALSE(place("quick").exists());
}

TEST_F(Pods, EndBySignalsAndStops) {
  make("killed", "sleep 1000");
  EXPECT_EQ(sallyport("pod kill killed --signal KILL").status, 0);
  EXPECT_EQ(sallyport("pod wait killed").status, 137);
  make("polite", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done");
  auto polite = attach("polite");
  ASSERT_TRUE(polite && polite->sees("up"));
  EXPECT_EQ(sallyport("pod stop polite --grace 60").status, 0);
  ASSERT_TRUE(polite->reads_to_the_end());
  EXPECT_EQ(polite->told->exit_code, 3);
  EXPECT_NE(polite->output.find("bye"), std::string::npos);
  make("stubborn", "trap '' TERM HUP; echo up; while :; do sleep 0.05; done");
  auto stubborn = attach("stubborn");
  ASSERT_TRUE(stubborn && stubborn->sees("up"));
  EXPECT_EQ(sallyport("pod stop stubborn --grace 0.1").status, 0);
  EXPECT_EQ(sallyport("pod wait stubborn").status, 137);
}

TEST_F(Pods, AttachTheSameWayOverLoopbackTcp) {
  make("tcp", "read x; echo got $x; exit 4", "--tcp");
  EXPECT_TRUE(record("tcp").is_tcp());
  EXPECT_FALSE(std::filesystem::exists(place("tcp").socket_path()));
  auto client = attach("tcp");
  ASSERT_TRUE(client);
  client->type("hello\r");
  EXPECT_TRUE(client->sees("got hello"));
  ASSERT_TRUE(client->reads_to_the_end());
  EXPECT_EQ(client->told->exit_code, 4);
}

TEST_F(Pods, OutliveTheWardenAndAreAdoptedByTheNext) {
  make("one", "echo up; while read x; do echo \"said $x\"; done");
  auto before = attach("one");
  ASSERT_TRUE(before && before->sees("up"));
  kill_warden();
  before->type("first\r");
  EXPECT_TRUE(before->sees("said first")) << "the attached client goes on";
  before->client.reset();
  auto after = attach("one");
  ASSERT_TRUE(after) << "and a new one needs no warden";
  EXPECT_TRUE(after->sees("said first")) << "the repaint";
  EXPECT_NE(sallyport("pod ls").output.find("running"), std::string::npos);
  // A new warden: it knows the pod, and passes on what it is asked.
  const Ran listed = sallyport("call pod.status '{\"pod\":\"one\"}'");
  EXPECT_NE(listed.output.find("\"state\":\"running\""), std::string::npos) << listed.output;
  EXPECT_EQ(sallyport("pod kill one").status, 0);
  EXPECT_EQ(sallyport("pod wait one").status, 137);
}

TEST_F(Pods, ServeAttachThroughTheWardenToo) {
  make("far", "echo up; read x; echo got $x; exit 6");
  auto warden = sallyport::Client::connect_unix(root_.path() + "/run/warden.sock");
  ASSERT_TRUE(warden);
  auto client = Attached::to(std::move(*warden), R"("pod":"far")");
  ASSERT_TRUE(client && client->sees("up"));
  EXPECT_TRUE(client->client->call("pod.resize", R"({"pod":"far","size":{"rows":30,"columns":90}})"));
  client->type("hello\r");
  ASSERT_TRUE(client->reads_to_the_end());
  EXPECT_NE(client->output.find("got hello"), std::string::npos);
  EXPECT_EQ(client->told->exit_code, 6);
}

TEST_F(Pods, HaveOneControllerAndManyViewers) {
  make("shared", "echo up; while read x; do echo \"said $x\"; done");
  auto first = attach("shared");
  ASSERT_TRUE(first && first->sees("up"));
  Error refusal;
  EXPECT_FALSE(attach("shared", "", &refusal));
  EXPECT_EQ(refusal.code, Code::conflict);
  auto viewer = attach("shared", R"("role":"view")");
  ASSERT_TRUE(viewer && viewer->sees("up"));
  viewer->type("from the viewer\r");
  EXPECT_FALSE(viewer->client->call("pod.resize", R"({"size":{"rows":5,"columns":5}})")) << "not its size to set";
  first->type("one\r");
  EXPECT_TRUE(first->sees("said one") && viewer->sees("said one"));
  EXPECT_EQ(viewer->output.find("said from"), std::string::npos);
  // Taken, and told.
  ASSERT_TRUE(viewer->client->call("pod.role", R"({"role":"control"})"));
  EXPECT_TRUE(eventually([&] { return first->client->dispatch(Millis(10)) && first->told->role == "view"; }));
  viewer->type("two\r");
  EXPECT_TRUE(viewer->sees("said two"));
  // Released: free for the next.
  ASSERT_TRUE(viewer->client->call("pod.role", R"({"role":"view"})"));
  auto third = attach("shared");
  ASSERT_TRUE(third);
  auto fourth = attach("shared", R"("take":true)");
  ASSERT_TRUE(fourth);
  fourth->type("three\r");
  EXPECT_TRUE(fourth->sees("said three"));
}

TEST_F(Pods, ResumeWhereAClientLeftOff) {
  make("resumed", "echo first; read x; echo second; read x; exit 0");
  auto before = attach("resumed");
  ASSERT_TRUE(before && before->sees("first\r\n"));
  const std::uint64_t seen = before->offset + before->output.size();
  before->client.reset();
  ASSERT_TRUE(eventually([&] { return attach("resumed").has_value(); }));
  auto after = attach("resumed", R"("take":true,"resume_offset":)" + std::to_string(seen));
  ASSERT_TRUE(after);
  after->type("\r");
  EXPECT_TRUE(after->sees("second"));
  EXPECT_EQ(after->output.find("first"), std::string::npos);
}

TEST_F(Pods, ReportADaemonThatDiesAtStartAndLeaveNothing) {
  const Ran missing = sallyport("pod new --name gone -- /does/not/exist");
  EXPECT_EQ(missing.status, 1);
  EXPECT_NE(missing.output.find("command not found"), std::string::npos) << missing.output;
  EXPECT_FALSE(place("gone").exists());
  EXPECT_EQ(sallyport("pod ls").output, "");
}

TEST_F(Pods, RefuseATakenNameAndOddOnes) {
  make("taken", "sleep 1000");
  const Ran again = sallyport("pod new --name taken -- true");
  EXPECT_EQ(again.status, 1);
  EXPECT_NE(again.output.find("is running"), std::string::npos) << again.output;
  for (const char* name : {"../x", "a/b", "UPPER"}) {
    EXPECT_NE(sallyport(std::string("pod new --name ") + name + " -- true").status, 0) << name;
    EXPECT_NE(sallyport(std::string("pod attach ") + name).status, 0) << name;
  }
  EXPECT_EQ(life("taken"), pod::Life::running);
}

TEST_F(Pods, AreKilledByTheLimitsOfTheirProfile) {
  ASSERT_EQ(sallyport("up").status, 0);
  for (const char* limit : {"idle", "duration"}) {
    const Ran made =
        sallyport(R"(call pod.create '{"name":"limited","command":["sleep","1000"],"profile":{"limits":{")" +
                  std::string(limit) + R"(":"1s"}}}')");
    ASSERT_EQ(made.status, 0) << made.output;
    EXPECT_EQ(sallyport("pod wait limited").status, 137) << limit;
  }
}

TEST_F(Pods, FollowTheLogToItsEnd) {
  make("talker", "for i in $(seq 1 2000); do echo line $i; done; exit 2");
  const Ran followed = sallyport("pod log --follow talker");
  EXPECT_EQ(followed.status, 0);
  EXPECT_NE(followed.output.find("line 1\r\n"), std::string::npos);
  EXPECT_TRUE(followed.output.ends_with("line 2000\r\n"));
}

// The other tests run as root where the machine's owner does; this one never does.
TEST_F(Pods, WorkForAnOrdinaryUser) {
  const std::string root = root_.path(), programs = std::filesystem::path(SALLYPORT_CLI).parent_path();
  const std::string become = ::geteuid() == 0 ? "setpriv --reuid 65534 --regid 65534 --clear-groups " : "";
  // Where that user can read them: a build directory may lie in somebody's home.
  std::filesystem::create_directories(root + "/bin");
  for (const char* program : {"sallyport", "sallyportd", "sallyport-pod", "sallyport-launcher"}) {
    std::filesystem::copy_file(programs + "/" + program, root + "/bin/" + program);
  }
  ASSERT_EQ(std::system((become.empty() ? "true" : "chown -R 65534:65534 '" + root + "'").c_str()), 0);
  const std::string here = "cd '" + root + "/project' && " + become + "env " + environment() + root + "/bin/sallyport ";
  EXPECT_EQ(std::system((here + "pod new --name mine -- sh -c 'read x; exit $x' >/dev/null").c_str()), 0);
  // Its door's files too, from inside its walls.
  std::ofstream(root + "/project/note") << "read-in-the-pod";
  EXPECT_EQ(std::system(("id=$(" + here + "call pod.list | grep -o 'pod-mine-[0-9a-f]*' | head -n 1) && (" + here +
                         "call fs.read \"{\\\"container\\\":\\\"$id\\\",\\\"path\\\":\\\"note\\\"}\") | grep -q "
                         "read-in-the-pod")
                            .c_str()),
            0);
  EXPECT_EQ(WEXITSTATUS(std::system(("echo 9 | (" + here + "pod attach mine >/dev/null)").c_str())), 9);
  EXPECT_EQ(std::system((here + "pod new --name tcp --tcp -- sh -c 'exit 3' >/dev/null").c_str()), 0);
  EXPECT_EQ(WEXITSTATUS(std::system((here + "pod wait tcp >/dev/null").c_str())), 3);
  EXPECT_EQ(std::system((here + "down >/dev/null").c_str()), 0);
}

TEST_F(Pods, AreOutOfReachForAContainerUnlessItsProfileNamesThem) {
  make("mine", "sleep 1000");
  const Ran made = sallyport("container create --name box");
  ASSERT_EQ(made.status, 0) << made.output;
  const std::string id = made.output.substr(0, made.output.size() - 1);
  auto warden = sallyport::Client::connect_unix(root_.path() + "/run/warden.sock");
  ASSERT_TRUE(warden);
  ASSERT_TRUE((*warden)->call("session.narrow", R"({"container":")" + id + "\"}"));
  for (const char* method : {"pod.list", "pod.create", "pod.attach", "pod.log", "pod.signal", "pod.stop", "pod.wait"}) {
    const auto answer = (*warden)->call(method, R"({"pod":"mine"})");
    ASSERT_FALSE(answer) << method;
    EXPECT_EQ(answer.error().code, Code::policy_denied) << method;
  }
}

}  // namespace
}  // namespace sallyport::testing

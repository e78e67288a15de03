// What the host does about each signal, with real containers, repositories and programs.
#include "scheduler/signals.h"

#include "os/files.h"
#include "scheduler/world.h"
#include "support/shell.h"

namespace sallyport::scheduler {
namespace {

namespace fs = std::filesystem;

class Signals : public World {
 protected:
  void write(const std::string& file, const std::string& text) const { std::ofstream(file) << text; }
  std::string script(const std::string& name, const std::string& text) const {
    write(path("/" + name), "#!/bin/sh\n" + text + "\n");
    fs::permissions(path("/" + name), fs::perms::owner_all);
    return path("/" + name);
  }
  static std::string run(const std::string& command) {
    auto [status, out] = testing::run_shell(command);
    EXPECT_EQ(status, 0) << command;
    while (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
  }
  // A repository with one commit, and that commit.
  std::string repository() {
    const std::string git = "git -C " + path("/repo") + " -c user.name=t -c user.email=t@example.org ";
    run("git init -q " + path("/repo"));
    write(path("/repo/file"), "x");
    run(git + "add file && " + git + "commit -q -m one");
    return run(git + "rev-parse HEAD");
  }
  bool ends(const std::shared_ptr<containers::Container>& each) {
    return until([&] { return containers::is_over(each->state); });
  }
};

TEST_F(Signals, AreTheEightOfWhichDeployAloneIsNotRepeated) {
  std::map<std::string, std::pair<int, bool>> found;
  for (const auto& each : builtin_signals(*life_->signals)) found[each.name] = {each.tier, each.is_idempotent};
  const std::map<std::string, std::pair<int, bool>> expected = {
      {"message_ready", {1, true}},  {"progress_ready", {1, true}}, {"context_reset", {1, true}},
      {"refresh_groups", {1, true}}, {"schedule_task", {2, true}},  {"create_periodic_agent", {2, true}},
      {"register_group", {2, true}}, {"deploy", {2, false}}};
  EXPECT_EQ(found, expected);
}

// ---- message_ready, progress_ready ----

TEST_F(Signals, MessageReadyTakesWhatTheCommandWroteAndEachLineOnce) {
  const auto one = container("helper", {"sh", "-c", R"(echo '{"type":"message","text":"a\u001bb"}'; echo plain;
      echo '{"type":"progress","text":"half"}'; touch written; while ! test -e go; do sleep 0.02; done;
      echo '{"type":"message","text":"two"}'; touch again; exec sleep 1000)"});
  ASSERT_TRUE(until([&] { return fs::exists(path("/desk/written")); }));
  // Written is enough: that the loop has not read the pipe yet must not matter.
  EXPECT_EQ(raise("message_ready", *one), R"({"messages":1,"progress":1,"malformed":1,"lost_bytes":0})");
  EXPECT_EQ(last("container.message"), R"({"container":")" + one->id + R"(","group":"","text":"a\u001bb"})");
  EXPECT_EQ(last("container.progress"), R"({"container":")" + one->id + R"(","group":"","text":"half"})");
  EXPECT_EQ(raise("progress_ready", *one), R"({"messages":0,"progress":0,"malformed":0,"lost_bytes":0})");
  write(path("/desk/go"), "x");
  ASSERT_TRUE(until([&] { return fs::exists(path("/desk/again")); }));
  EXPECT_EQ(raise("progress_ready", *one), R"({"messages":1,"progress":0,"malformed":0,"lost_bytes":0})");
  EXPECT_EQ(count("container.message"), 2U);
  EXPECT_EQ(audited("container.output"), 2U);
}

TEST_F(Signals, AttackAFloodOfOutputIsBoundedAndWhatWasLostIsSaid) {
  const auto one = container("helper", {"sh", "-c", R"(i=0; while [ $i -lt 9000 ]; do
      echo '{"type":"message","text":"0123456789012345678901234567890123456789"}'; i=$((i+1)); done)"});
  ASSERT_TRUE(ends(one));
  const std::string answer = raise("message_ready", *one);
  EXPECT_EQ(answer.find(R"("lost_bytes":0)"), std::string::npos) << answer;
  EXPECT_LT(count("container.message"), 5000U);
  EXPECT_GT(count("container.message"), 3000U);
}

TEST_F(Signals, AContainerThatIsGoneOrNotCapturedIsRefused) {
  const auto one = container("helper");
  containers::Container gone;
  gone.id = "gone";
  EXPECT_EQ(raise("message_ready", gone), "NOT_FOUND: the container that asked is gone");
  one->is_output_captured = false;
  EXPECT_EQ(raise("message_ready", *one).substr(0, 8), "CONFLICT");
}

// ---- context_reset ----

TEST_F(Signals, ContextResetEmptiesTheSessionWhileTheContainerRuns) {
  const auto one = container("helper", {"sh", "-c", R"(cd /run/sallyport/session && mkdir -p a/b && echo x > a/b/c &&
      ln -s / root && touch done; while ls -A | grep -q .; do sleep 0.02; done; ls -A | wc -l; exec sleep 1000)"});
  ASSERT_TRUE(until([&] { return fs::exists(one->session_dir + "/done"); }));
  EXPECT_EQ(raise("context_reset", *one), R"({"removed":5})");
  EXPECT_TRUE(until([&] { return one->out.tail() == "0\n"; })) << one->out.tail() << one->err.tail();
  EXPECT_EQ(count("container.context_reset"), 1U);
}

TEST_F(Signals, AGroupsSessionOutlivesItsContainersAndIsEmptiedForAll) {
  const auto first = container("helper");
  ASSERT_EQ(raise("register_group", *first, R"({"name":"family","folder":"family","trigger":"@x"})"),
            R"({"group":"family","profile":"helper"})");
  const auto writer = container("helper", {"sh", "-c", "echo remembered > /run/sallyport/session/note"}, "family");
  ASSERT_TRUE(ends(writer));
  const auto reader = container("helper", {"cat", "/run/sallyport/session/note"}, "family");
  ASSERT_TRUE(ends(reader));
  EXPECT_TRUE(until([&] { return reader->out.tail() == "remembered\n"; })) << reader->err.tail();
  EXPECT_EQ(raise("context_reset", *reader), R"({"removed":1})");
  EXPECT_TRUE(fs::is_empty(*life_->groups.session_dir("family")));
}

// ---- register_group, refresh_groups ----

TEST_F(Signals, RegisterGroupRefusesTraversalReservedNamesAndWiderProfiles) {
  const auto one = container("small");
  const auto group = [&](const std::string& rest) { return raise("register_group", *one, "{" + rest + "}", rest); };
  EXPECT_EQ(group(R"("name":"../x","folder":"x")").substr(0, 14), "INVALID_PARAMS");
  EXPECT_EQ(group(R"("name":"x","folder":"../x")").substr(0, 14), "INVALID_PARAMS");
  EXPECT_EQ(group(R"("name":"x","folder":"/etc")").substr(0, 14), "INVALID_PARAMS");
  EXPECT_EQ(group(R"("name":"host","folder":"x")"), "INVALID_PARAMS: 'host' is reserved; choose another name");
  EXPECT_EQ(group(R"("name":"x","folder":"x","config":{"profile":"wide"})"),
            "POLICY_DENIED: profile 'wide' allows more than your own (fs.read)");
  EXPECT_EQ(group(R"("name":"x","folder":"x","config":{"profile":"nobody"})").substr(0, 14), "INVALID_PARAMS");
  EXPECT_EQ(group(R"("name":"x","folder":"x","config":{"labels":{}})").substr(0, 14), "INVALID_PARAMS");
  EXPECT_EQ(group(R"("name":"x","folder":"x","config":{"settings":{"a":1}})").substr(0, 14), "INVALID_PARAMS");
  EXPECT_FALSE(fs::exists(path("/groups/x.toml")));
  const auto wide = container("helper");
  EXPECT_EQ(
      raise("register_group", *wide, R"({"name":"x","folder":"x","config":{"profile":"small","settings":{"a":"b"}}})"),
      R"({"group":"x","profile":"small"})");
  EXPECT_TRUE(fs::exists(path("/groups/x.toml")));
}

TEST_F(Signals, ANarrowedSendersGroupIsAsNarrow) {
  containers::Config config;
  config.profile = "helper";
  config.workspace = path("/desk");
  config.overrides = R"({"read_only":true})";
  auto narrow = wait(handlers::start_container(*life_->host, config));
  ASSERT_TRUE(narrow);
  EXPECT_EQ(raise("register_group", **narrow, R"({"name":"x","folder":"x"})")[0], '{');
  EXPECT_EQ(life_->groups.find("x")->overrides, config.overrides);
  EXPECT_EQ(raise("register_group", **narrow, R"({"name":"y","folder":"y","config":{"profile":"small"}})", "2"),
            "POLICY_DENIED: profile 'small' allows more than your own (fs.write)");
}

TEST_F(Signals, RefreshGroupsReadsThemAgainAndSaysHowManyThereAre) {
  const auto one = container("helper");
  EXPECT_EQ(raise("refresh_groups", *one), R"({"groups":0,"faults":0})");
  ASSERT_TRUE(
      os::write_private_file(path("/groups/mine.toml"), "name = \"mine\"\nprofile = \"helper\"\nfolder = \"m\"\n"));
  ASSERT_TRUE(os::write_private_file(path("/groups/bad.toml"), "name = 1\n"));
  EXPECT_EQ(raise("refresh_groups", *one), R"({"groups":1,"faults":1})");
  EXPECT_EQ(last("group.refreshed"), R"({"groups":1,"faults":1})") << "a list of many would not fit an event";
}

// ---- deploy ----

TEST_F(Signals, DeployChecksTheCommitRunsTheCommandAndResumes) {
  const std::string commit = repository();
  deployments_["site"] = {"site",
                          path("/repo"),
                          {script("deploy", "echo \"$1 $2 $PWD ${HOME:+home} ${SECRET:-none}\" > " + path("/deployed")),
                           "{commit}", "{name}"}};
  ::setenv("SECRET", "leaked", 1);
  const auto one = container("helper");
  const std::string answer =
      raise("deploy", *one,
            R"({"commit":")" + commit +
                R"(","repository":"site","resume_prompt":"echo '{\"type\":\"message\",\"text\":\"on\"}'"})");
  ::unsetenv("SECRET");
  EXPECT_NE(answer.find(R"("exit_code":0,"resume_task":"t-)"), std::string::npos) << answer;
  EXPECT_EQ(run("cat " + path("/deployed")), commit + " site " + path("/repo") + " home none");
  ASSERT_TRUE(until([&] { return count("schedule.finished") == 1; }));
  EXPECT_NE(last("container.message").find(R"("text":"on")"), std::string::npos);
  EXPECT_EQ(count("deploy.finished"), 1U);
}

TEST_F(Signals, DeployRefusesWhatIsNoCommitOfThatRepository) {
  const std::string commit = repository();
  deployments_["site"] = {"site", path("/repo"), {script("deploy", "touch " + path("/deployed"))}};
  const auto one = container("helper");
  const auto deploy = [&](const std::string& id, const std::string& rest = "") {
    return raise("deploy", *one, R"({"commit":")" + id + "\"" + rest + "}");
  };
  EXPECT_EQ(deploy(std::string(40, '0')), "NOT_FOUND: the repository has no such commit");
  EXPECT_EQ(deploy(commit.substr(0, 39)).substr(0, 14), "INVALID_PARAMS");
  for (const std::string& hostile : {std::string("--output=/tmp/x") + std::string(25, 'a'), std::string(40, 'G'),
                                     std::string("HEAD") + std::string(36, ' '), commit.substr(0, 38) + "^{"}) {
    EXPECT_EQ(deploy(hostile).substr(0, 14), "INVALID_PARAMS") << hostile;
  }
  // A tree and a blob are there, but are no commits.
  const std::string tree = run("git -C " + path("/repo") + " rev-parse 'HEAD^{tree}'");
  EXPECT_EQ(deploy(tree), "NOT_FOUND: the repository has no such commit");
  EXPECT_EQ(deploy(commit, R"(,"repository":"other")").substr(0, 9), "NOT_FOUND");
  EXPECT_EQ(deploy(commit, R"(,"repository":"/etc")").substr(0, 9), "NOT_FOUND");
  EXPECT_EQ(raise("deploy", *container("plain"), R"({"commit":")" + commit + R"(","resume_prompt":"x"})"),
            "CONFLICT: the profile has no agent command, so nothing could resume");
  EXPECT_FALSE(fs::exists(path("/deployed")));
  EXPECT_EQ(deploy(commit)[0], '{');
  EXPECT_TRUE(fs::exists(path("/deployed")));
}

TEST_F(Signals, DeploySaysHowTheCommandFailed) {
  const std::string commit = repository();
  deployments_["site"] = {"site", path("/repo"), {script("deploy", "echo secret path; exit 9")}};
  const auto one = container("helper");
  EXPECT_EQ(raise("deploy", *one, R"({"commit":")" + commit + "\"}"), "IO_ERROR: the deploy command failed");
  EXPECT_NE(last("deploy.finished").find("secret path"), std::string::npos);
  deployments_["site"].command = {script("slow", "sleep 1000")};
  deployments_["site"].timeout = Millis(50);
  EXPECT_EQ(raise("deploy", *one, R"({"commit":")" + commit + "\"}"), "TIMEOUT: the deploy command took too long");
}

// ---- declared in the configuration ----

TEST_F(Signals, ADeclaredProgramGetsTheRequestOnItsStdinAndAnswersJson) {
  DeclaredSignal restock;
  restock.name = "restock";
  restock.tier = 2;
  restock.command = {script("restock", R"(printf '{"for":"%s","got":' "$1"; cat; printf '}')"), "{container}"};
  restock.fields.push_back(
      {.name = restock.names.emplace_back("item"), .type = wire::Type::string, .required = true, .most = 8});
  declared_.push_back(restock);
  const auto one = container("helper");
  EXPECT_EQ(raise("restock", *one, R"j({"item":"$(x)"})j", "k1"),
            R"({"exit_code":0,"output":{"for":")" + one->id + R"(","got":{"signal":"restock","container":")" + one->id +
                R"j(","group":"","request_id":"k1","key":"k1","payload":{"item":"$(x)"}}}})j");
  EXPECT_EQ(raise("restock", *one, R"({"item":"far too long"})").substr(0, 14), "INVALID_PARAMS");
  EXPECT_EQ(raise("restock", *one, R"({"item":"x","more":1})").substr(0, 14), "INVALID_PARAMS");
}

TEST_F(Signals, ADeclaredProgramThatFailsOrBabblesSaysSo) {
  DeclaredSignal bad, babble;
  bad.name = "bad";
  bad.command = {script("bad", "exit 4")};
  babble.name = "babble";
  babble.command = {script("babble", "echo no json")};
  declared_ = {bad, babble};
  const auto one = container("helper");
  EXPECT_EQ(raise("bad", *one), "IO_ERROR: the signal's program failed");
  EXPECT_EQ(raise("babble", *one), R"({"exit_code":0,"output":null})");
}

TEST_F(Signals, ADeclaredEventGoesToSubscribers) {
  DeclaredSignal ring;
  ring.name = "ring";
  declared_.push_back(ring);
  const auto one = container("helper");
  EXPECT_EQ(raise("ring", *one), R"({"published":true})");
  EXPECT_NE(last("signal.ring").find(one->id), std::string::npos);
}

}  // namespace
}  // namespace sallyport::scheduler

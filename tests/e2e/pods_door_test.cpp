// What a pod's agent has beside its terminal: a door, a mailbox, named hosts; and what is recorded of it.
#include <unistd.h>

#include <iterator>

#include "e2e/site.h"
#include "pods.h"
#include "support/client.h"

namespace sallyport::testing {
namespace {

// Asks the door for a method each time a line is typed.
constexpr const char* kAsk = R"(cat > ask.py <<'END'
import json, os, socket, struct, sys
door = socket.socket(socket.AF_UNIX)
door.connect(os.environ["SALLYPORT_DOOR"])
params = json.loads(sys.argv[2] or "{}")
body = json.dumps({"id": "1", "type": "request", "method": sys.argv[1], "params": params}).encode()
door.sendall(struct.pack(">I", len(body)) + body)
size = struct.unpack(">I", door.recv(4, socket.MSG_WAITALL))[0]
print(door.recv(size, socket.MSG_WAITALL).decode())
END
)";

class PodsDoor : public Pods {
 protected:
  void make_asking(const std::string& name, const std::string& flags = "") {
    make(name, std::string(kAsk) + "echo up; while read -r m p; do python3 ask.py $m \"$p\"; echo \"asked $m\"; done",
         flags);
  }
  std::string asked(Attached& client, const std::string& method, const std::string& params = "") {
    client.output.clear();
    client.type(method + (params.empty() ? "" : " " + params) + "\r");
    EXPECT_TRUE(client.sees("asked " + method)) << client.output;
    return client.output;
  }
};

TEST_F(PodsDoor, AnswersTheAgentAsItsContainerAlsoAfterTheWardenWasKilled) {
  make_asking("one");
  const std::string id = record("one").container;
  EXPECT_TRUE(id.starts_with("pod-one-")) << id;
  auto client = attach("one");
  ASSERT_TRUE(client && client->sees("up"));
  EXPECT_TRUE(has(asked(*client, "test.ping"), R"("pong":true)"));
  EXPECT_TRUE(has(asked(*client, "warden.hello"), "container/" + id));
  EXPECT_TRUE(has(asked(*client, "warden.status"), "POLICY_DENIED"));
  EXPECT_TRUE(has(sallyport("call container.list").output, id));
  for (int life = 0; life < 2; ++life) {
    if (life == 0) {
      kill_warden();
      EXPECT_TRUE(has(asked(*client, "test.ping"), "refused")) << "nobody is there to answer";
    } else {
      ASSERT_EQ(sallyport("down").status, 0);
    }
    const Ran up = sallyport("up");
    ASSERT_EQ(up.status, 0) << up.output;
    EXPECT_TRUE(has(asked(*client, "test.ping"), R"("pong":true)")) << life;
    EXPECT_TRUE(has(asked(*client, "warden.hello"), "container/" + id)) << life;
  }
  // The container goes with the pod.
  EXPECT_EQ(sallyport("pod kill one").status, 0);
  EXPECT_EQ(sallyport("pod wait one").status, 137);
  EXPECT_TRUE(eventually([&] { return !has(sallyport("call container.list").output, id); }));
  EXPECT_FALSE(std::filesystem::exists(root_.path() + "/run/containers/" + id));
}

TEST_F(PodsDoor, PassesLogsOnAsOftenAsTheyAreAskedFor) {
  std::filesystem::create_directories(root_.path() + "/profiles");
  std::ofstream(root_.path() + "/profiles/logs.toml")
      << "[profile.logs]\nfs.read = [\"/usr\", \"/etc\"]\nfs.write = [\"${workspace}\"]\nexec = [\"/usr/**\"]\n"
         "methods = [\"pod.*\"]\nenv = { PATH = \"/usr/bin:/bin\" }\n";
  make("talker", "echo something; sleep 1000");
  ASSERT_TRUE(has_said("talker", 9));
  make("reader", R"(cat > logs.py <<'END'
import json, os, socket, struct
door = socket.socket(socket.AF_UNIX)
door.connect(os.environ["SALLYPORT_DOOR"])
for number in range(100):
    request = {"id": str(number), "type": "request", "method": "pod.log", "params": {"pod": "talker"}}
    body = json.dumps(request).encode()
    door.sendall(struct.pack(">I", len(body)) + body)
    has_ended = False
    while not has_ended:
        body = door.recv(struct.unpack(">I", door.recv(4, socket.MSG_WAITALL))[0], socket.MSG_WAITALL)
        if body[:1] == b"{" and b'"error"' in body:
            raise SystemExit("refused the %d.: %s" % (number, body))
        has_ended = body[:1] != b"{" and len(body) == 5
print("read all")
END
python3 logs.py; sleep 1000)",
       "--profile logs");
  auto client = attach("reader", R"("role":"view")");
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->sees("read all")) << client->output;
}

TEST_F(PodsDoor, ServesFilesByItsProfileAlsoAfterTheWardenWasKilled) {
  for (const char* flags : {"", "--tcp"}) {
    const std::string name = std::string("files") + (*flags == '\0' ? "" : "-tcp");
    make_asking(name, flags);
    const std::string id = record(name).container;
    auto client = attach(name);
    ASSERT_TRUE(client && client->sees("up"));
    for (int life = 0; life < 2; ++life) {
      const std::string file = name + std::to_string(life) + ".txt";
      const std::string written =
          asked(*client, "fs.write", R"({"path":")" + file + R"(","content":"said-by-)" + file + R"("})");
      EXPECT_TRUE(has(written, R"("result")")) << written;
      std::ifstream content(root_.path() + "/project/" + file);
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(content), {}), "said-by-" + file) << "not inside its walls";
      EXPECT_TRUE(has(asked(*client, "fs.read", R"({"path":")" + file + R"("})"), "said-by-" + file));
      // What the profile hides from the agent its worker does not find either.
      const std::string hidden = asked(*client, "fs.read", R"({"path":")" + pods_dir() + "/" + name + R"(/pod.json"})");
      EXPECT_TRUE(has(hidden, R"("error")") && !has(hidden, "token")) << hidden;
      EXPECT_TRUE(has(asked(*client, "env.get", R"({"names":["SALLYPORT_CONTAINER"]})"), id));
      // The host names the container.
      EXPECT_TRUE(has(sallyport("call fs.read '{\"container\":\"" + id + "\",\"path\":\"" + file + "\"}'").output,
                      "said-by-" + file));
      recorded("fs.read", id);
      EXPECT_FALSE(has(sallyport("--json audit query --method pod.worker").output, R"("stage":"event")"))
          << "the warden's own business";
      kill_warden();
      ASSERT_EQ(sallyport("up").status, 0);
    }
    // No worker outlives the agent.
    client->type("\x04");
    ASSERT_TRUE(becomes(name, pod::Life::exited));
    const Ran late = sallyport("call fs.read '{\"container\":\"" + id + "\",\"path\":\"" + name + "0.txt\"}'");
    EXPECT_NE(late.status, 0) << late.output;
  }
}

// A pod whose warden died while it came to life, at the moment in which the next warden looks: it holds its lock and
// has not said yet where it can be reached.
class PodsDoorOfALateComer : public PodsDoor {
 protected:
  void SetUp() override {
    PodsDoor::SetUp();
    make_asking("late");
    found_ = record("late");
    client_ = attach("late");
    ASSERT_TRUE(client_ && client_->sees("up"));
    kill_warden();
    ASSERT_EQ(::kill(daemon(), SIGSTOP), 0);
    std::filesystem::rename(place("late").record_path(), aside());
    ASSERT_EQ(life("late"), pod::Life::starting);
    const Ran up = sallyport("up");
    ASSERT_EQ(up.status, 0) << up.output;
  }
  void TearDown() override {
    // So that it is found there.
    std::error_code ignored;
    std::filesystem::rename(aside(), place("late").record_path(), ignored);
    PodsDoor::TearDown();
  }
  pid_t daemon() const { return static_cast<pid_t>(found_.binding.pid); }
  std::string aside() const { return root_.path() + "/aside.json"; }
  bool is_listed() { return has(sallyport("call container.list").output, found_.container); }

  pod::Record found_;
  std::optional<Attached> client_;
};

TEST_F(PodsDoorOfALateComer, IsOpenedAsSoonAsItIsPublished) {
  // Later than any look of the start-up.
  EXPECT_TRUE(is_listed()) << "it may yet come";
  std::filesystem::rename(aside(), place("late").record_path());
  ASSERT_EQ(::kill(daemon(), SIGCONT), 0);
  EXPECT_TRUE(eventually([&] {
    return has(sallyport("call container.inspect '{\"container\":\"" + found_.container + "\"}'").output,
               R"("state":"running")");
  }));
  EXPECT_TRUE(has(asked(*client_, "test.ping"), R"("pong":true)"));
  EXPECT_TRUE(has(asked(*client_, "warden.hello"), "container/" + found_.container));
  EXPECT_FALSE(has(sallyport("--json audit query --method container.lost").output, found_.container));
}

TEST_F(PodsDoorOfALateComer, IsForgottenWhenItNeverComes) {
  ::kill(daemon(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !is_listed(); }));
  EXPECT_FALSE(std::filesystem::exists(root_.path() + "/run/containers/" + found_.container));
  recorded("container.lost", found_.container);
}

TEST_F(PodsDoor, IsForgottenWhenThePodDiedWithoutAWarden) {
  make_asking("one");
  const std::string id = record("one").container;
  kill_warden();
  ::kill(daemon_pid("one"), SIGKILL);
  ASSERT_TRUE(becomes("one", pod::Life::lost));
  const Ran up = sallyport("up");
  ASSERT_EQ(up.status, 0) << up.output;
  EXPECT_TRUE(eventually([&] { return !has(sallyport("call container.list").output, id); }));
  EXPECT_FALSE(std::filesystem::exists(root_.path() + "/run/containers/" + id));
}

TEST_F(PodsDoor, IsClosedToWhoeverIsNotInThePodsNamespace) {
  make_asking("one");
  const std::string door = root_.path() + "/run/containers/" + record("one").container + "/door.sock";
  Client outside = Client::unix_socket(door);
  ASSERT_TRUE(outside);
  EXPECT_NE(outside.outcome("test.ping"), "OK");
  kill_warden();
  const Ran up = sallyport("up");
  ASSERT_EQ(up.status, 0) << up.output;
  Client again = Client::unix_socket(door);
  ASSERT_TRUE(again) << "the next warden listens there";
  EXPECT_NE(again.outcome("test.ping"), "OK") << "and knows as well where the pod lives";
}

TEST_F(PodsDoor, TakesSignalsAndIsSteeredThroughThePodOnly) {
  make("one", "echo up; sallyport-signal context_reset; echo \"raised $?\"; read x");
  auto client = attach("one");
  ASSERT_TRUE(client && client->sees("raised 0")) << client->output;
  const std::string id = record("one").container;
  EXPECT_TRUE(has(recorded("context_reset", id), "container/" + id));
  for (const char* method : {"container.stop", "container.signal"}) {
    const Ran refused = sallyport(std::string("call ") + method + " '{\"container\":\"" + id + "\"" +
                                  (std::string(method) == "container.signal" ? ",\"signal\":10" : "") + "}'");
    EXPECT_TRUE(has(refused.output, "CONFLICT") && has(refused.output, "pod.stop")) << refused.output;
  }
  EXPECT_EQ(life("one"), pod::Life::running);
}

// ---- the ledger ----

TEST_F(PodsDoor, RecordsWhoAttachedReadTheLogAndWaited) {
  make("one", "echo up; while read x; do echo \"said $x\"; done");
  auto first = attach("one");
  ASSERT_TRUE(first && first->sees("up"));
  EXPECT_FALSE(attach("one"));
  auto viewer = attach("one", R"("role":"view")");
  ASSERT_TRUE(viewer);
  ASSERT_TRUE(viewer->client->call("pod.role", R"({"role":"control"})"));
  EXPECT_EQ(sallyport("pod log one").status, 0);
  first->client.reset();
  const std::string attaches = recorded("pod.attach", R"("rule":"view")");
  EXPECT_TRUE(has(attaches, "CONFLICT") && has(attaches, R"("rule":"control")")) << attaches;
  EXPECT_TRUE(has(attaches, "pod/one/")) << attaches;
  EXPECT_TRUE(has(attaches, "\"peer\":" + std::to_string(::getpid()))) << attaches;
  recorded("pod.role", R"("rule":"control")");
  recorded("pod.log", "pod/one/");
  recorded("pod.detach", "pod/one/");
  EXPECT_EQ(sallyport("pod kill one").status, 0);
  EXPECT_EQ(sallyport("pod wait one").status, 137);
  recorded("pod.wait", "pod/one/");
  EXPECT_EQ(sallyport("audit verify").status, 0);
}

TEST_F(PodsDoor, RecordsWhatTheScanAtItsEndFound) {
  make("planter", "git init -q . && echo evil > .git/hooks/post-checkout");
  EXPECT_TRUE(eventually([&] {
    const std::string audit = sallyport("--json audit query --method container.finding").output;
    return has(audit, "quarantined: ") && has(audit, "hooks/post-checkout") && has(audit, "container/pod-planter-");
  }));
}

TEST_F(PodsDoor, RecordsWhatHappenedWhileNoWardenRan) {
  make("one", "echo up; read x");
  kill_warden();
  ASSERT_TRUE(attach("one", R"("role":"view")"));
  EXPECT_EQ(sallyport("pod log one").status, 0);
  const Ran up = sallyport("up");
  ASSERT_EQ(up.status, 0) << up.output;
  recorded("pod.attach", R"("rule":"view")");
  recorded("pod.log", "pod/one/");
}

TEST_F(PodsDoor, RecordsOnceWhatCameThroughTheWarden) {
  for (const char* flags : {"", "--tcp"}) {
    const std::string name = std::string("one") + (*flags == '\0' ? "" : "-tcp");
    make(name, "echo up; read x", flags);
    const auto detaches = [&] {
      const std::string records = sallyport("--json audit query --method pod.detach").output;
      std::size_t count = 0;
      for (std::size_t at = 0; (at = records.find("pod/" + name + "/", at)) != std::string::npos; ++at) ++count;
      return count;
    };
    for (std::size_t life = 1; life <= 2; ++life) {
      EXPECT_EQ(sallyport("call pod.signal '{\"pod\":\"" + name + "\",\"signal\":28}'").status, 0);
      auto warden = sallyport::Client::connect_unix(root_.path() + "/run/warden.sock");
      ASSERT_TRUE(warden && (*warden)->call("pod.attach", R"({"pod":")" + name + R"(","role":"view"})"));
      warden->reset();
      // What the pod itself reports comes in order: when this is there, nothing of the others is missing.
      ASSERT_TRUE(attach(name, R"("role":"view")"));
      ASSERT_TRUE(eventually([&] { return detaches() >= life; }));
      EXPECT_EQ(detaches(), life) << "only of those that came directly";
      EXPECT_FALSE(has(sallyport("--json audit query --method pod.signal").output, R"("stage":"event")")) << name;
      // The pod knows the next warden by another voucher.
      kill_warden();
      ASSERT_EQ(sallyport("up").status, 0);
    }
  }
}

// ---- the network ----

class PodsNet : public Pods {
 protected:
  PodsNet() { more_variables_ = "SALLYPORT_EGRESS_HOSTS=" + site_.root() + "/hosts "; }
  std::string rules() const { return "\"web.test:" + site_.http + "\", \"127.0.0.1:" + site_.http + "\""; }
  std::string options() const { return "--allow-net web.test:" + site_.http + " --allow-net 127.0.0.1:" + site_.http; }
  // Fetches from the site, or from elsewhere, whenever a line says so.
  std::string script() const {
    return "echo up; while read x; do curl -sS -m 30 http://$x 2>&1; echo \"fetched $x\"; done";
  }
  std::string site() const { return "web.test:" + site_.http + "/hello"; }
  std::string fetched(Attached& client, const std::string& what) {
    client.output.clear();
    client.type(what + "\r");
    EXPECT_TRUE(client.sees("fetched " + what)) << client.output;
    return client.output;
  }
  void write_profile(const std::string& allow) const {
    std::filesystem::create_directories(root_.path() + "/profiles");
    std::ofstream(root_.path() + "/profiles/net.toml")
        << "[profile.net]\nfs.read = [\"/usr\", \"/etc\"]\nfs.write = [\"${workspace}\"]\nexec = [\"/usr/**\"]\n"
           "methods = [\"test.*\", \"pod.*\"]\nenv = { PATH = \"/usr/bin:/bin\" }\nnet.allow = ["
        << allow << "]\n";
  }
  // Children of a process by their name.
  static std::vector<pid_t> proxies_of(pid_t parent) {
    std::vector<pid_t> found;
    const std::string id = std::to_string(parent);
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    for (pid_t pid = 0; children >> pid;) {
      std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
      std::string name;
      if (std::getline(comm, name) && name == "sallyport-egres") found.push_back(pid);
    }
    return found;
  }

  Site site_;
};

TEST_F(PodsNet, ReachNamedHostsThroughAProxyOfTheirOwnThatEndsWithThem) {
  make("web", script(), options());
  auto client = attach("web");
  ASSERT_TRUE(client && client->sees("up"));
  EXPECT_TRUE(has(fetched(*client, site() + "?token=secret"), "hello from the site"));
  EXPECT_TRUE(has(fetched(*client, "evil.test/"), "no rule of net.allow names it"));
  const std::string records = recorded("egress.connect", "evil.test:80");
  EXPECT_TRUE(has(records, "container/" + record("web").container)) << records;
  EXPECT_TRUE(has(recorded("egress.connect", R"("stage":"outcome")"), "web.test:" + site_.http));
  EXPECT_FALSE(has(records, "secret")) << records;
  EXPECT_TRUE(has(sallyport("call pod.status '{\"pod\":\"web\"}'").output, R"("host":"web.test")"));
  const pid_t daemon = daemon_pid("web");
  const std::vector<pid_t> proxies = proxies_of(daemon);
  ASSERT_EQ(proxies.size(), 1U);
  // Killed, it is replaced; with the pod it goes.
  ::kill(proxies[0], SIGKILL);
  EXPECT_TRUE(eventually([&] { return !proxies_of(daemon).empty() && proxies_of(daemon) != proxies; }));
  EXPECT_TRUE(has(fetched(*client, site()), "hello from the site"));
  const std::vector<pid_t> second = proxies_of(daemon);
  ASSERT_EQ(second.size(), 1U);
  const auto second_started = os::process_start_time(second[0]);
  ASSERT_TRUE(second_started);
  ::kill(daemon, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !os::is_process_alive(second[0], *second_started); }));
}

// In a pid namespace of its own: what a pod's end leaves behind once was taken for everybody's number.
TEST_F(PodsNet, ThatHaveEndedLeaveOthersAloneWhenTheirProfileIsReloaded) {
  std::filesystem::create_directories(root_.path() + "/project");
  std::ofstream(root_.path() + "/script")
      << "sleep 1000 & neighbour=$!\n" SALLYPORT_CLI " up\n" SALLYPORT_CLI
         " pod new --name over --allow-net web.test -- true\n" SALLYPORT_CLI
         " call pod.wait '{\"pod\":\"over\"}'\n" SALLYPORT_CLI " call warden.reload\n" SALLYPORT_CLI
         " pod ls\n" SALLYPORT_CLI " ping && kill -0 $neighbour && echo all are there\n" SALLYPORT_CLI " down\n";
  const Ran ran = run_shell("cd '" + root_.path() + "/project' && " + environment() +
                            "unshare --pid --fork --mount-proc bash ../script 2>&1 </dev/null");
  EXPECT_TRUE(has(ran.output, "all are there")) << ran.output;
}

TEST_F(PodsNet, GoOnWithoutTheWardenAndTheNextOneRecordsIt) {
  make("web", script(), options());
  auto client = attach("web");
  ASSERT_TRUE(client && client->sees("up"));
  kill_warden();
  EXPECT_TRUE(has(fetched(*client, site()), "hello from the site"));
  EXPECT_TRUE(has(fetched(*client, "evil.test/"), "no rule of net.allow names it"));
  const Ran up = sallyport("up");
  ASSERT_EQ(up.status, 0) << up.output;
  EXPECT_TRUE(has(recorded("egress.connect", "evil.test:80"), "web.test:" + site_.http));
  EXPECT_TRUE(has(fetched(*client, site()), "hello from the site")) << "the rules beside the profile's are kept";
}

TEST_F(PodsNet, FollowTheirProfileWhenItIsReloadedOrAnotherWardenReadsIt) {
  write_profile(rules());
  make("web", script(), "--profile net");
  auto client = attach("web");
  ASSERT_TRUE(client && client->sees("up"));
  EXPECT_TRUE(has(fetched(*client, site()), "hello from the site"));
  write_profile("\"other.test\"");
  ASSERT_EQ(sallyport("call warden.reload").status, 0);
  EXPECT_TRUE(eventually([&] { return has(fetched(*client, site()), "no rule of net.allow names it"); }));
  write_profile("\"*\"");
  EXPECT_NE(sallyport("call warden.reload").status, 0);
  EXPECT_TRUE(eventually([&] { return has(fetched(*client, site()), "has a fault"); }));
  // A new warden tells it what holds now.
  kill_warden();
  write_profile(rules());
  const Ran up = sallyport("up");
  ASSERT_EQ(up.status, 0) << up.output;
  EXPECT_TRUE(eventually([&] { return has(fetched(*client, site()), "hello from the site"); }));
}

TEST_F(PodsNet, GetMoreThanTheirProfileFromTheHostAlone) {
  write_profile(rules());
  const Ran wrong = sallyport("pod new --allow-net '*.com' --name wrong -- true");
  EXPECT_NE(wrong.status, 0);
  EXPECT_TRUE(has(wrong.output, "*.com")) << wrong.output;
  const Ran made = sallyport("call container.create '{\"template\":\"net\"}'");
  wire::Decoder decoder;
  const auto document = decoder.parse(made.output);
  ASSERT_TRUE(document) << made.output;
  auto narrowed = sallyport::Client::connect_unix(root_.path() + "/run/warden.sock");
  ASSERT_TRUE(narrowed);
  const std::string id(document->root().get("container").as_string().value_or(""));
  ASSERT_TRUE((*narrowed)->call("session.narrow", R"({"container":")" + id + "\"}"));
  const auto refused =
      (*narrowed)->call("pod.create", R"({"name":"more","command":["true"],"allow_net":["evil.test"]})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::policy_denied);
  EXPECT_FALSE(place("more").exists());
  // Less than the profile, anybody may ask for.
  const auto less = (*narrowed)->call("pod.create", R"({"name":"less","command":["sleep","1000"],"template":"net",)"
                                                    R"("profile":{"net":{"allow":[]}}})");
  ASSERT_TRUE(less) << less.error().describe();
  EXPECT_TRUE(proxies_of(daemon_pid("less")).empty());
  const auto wider = (*narrowed)->call("pod.create", R"({"name":"wider","command":["true"],"template":"net",)"
                                                     R"("profile":{"net":{"allow":["evil.test"]}}})");
  ASSERT_FALSE(wider);
  EXPECT_EQ(wider.error().code, Code::invalid_params);
}

TEST_F(PodsNet, PassOnTheVariablesThatTheirProfileNames) {
  more_variables_ += "ANTHROPIC_API_KEY=from-the-caller NOT_NAMED=x ";
  make("agent", "echo \"key $ANTHROPIC_API_KEY other $NOT_NAMED.\"; read x", "--profile agent");
  auto client = attach("agent");
  ASSERT_TRUE(client);
  EXPECT_TRUE(client->sees("key from-the-caller other .")) << client->output;
  std::ifstream file(place("agent").record_path());
  const std::string record(std::istreambuf_iterator<char>(file), {});
  EXPECT_FALSE(has(record, "from-the-caller")) << "no environment in the state file";
}

}  // namespace
}  // namespace sallyport::testing

// Real clients in real sandboxes, and the servers that they may and may not reach.
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <iterator>
#include <thread>

#include "e2e/door.h"
#include "e2e/site.h"

namespace sallyport::testing {
namespace {

TEST_F(EgressRun, CurlReachesANamedHostInEveryProtocol) {
  const Ran ran = run(site_options(),
                      "set -e\n"
                      "curl -sS " +
                          plain() +
                          "/hello\n"
                          "curl -sS -p " +
                          plain() +
                          "/hello\n"
                          "curl -sS --socks5-hostname 127.0.0.1:3128 " +
                          plain() +
                          "/hello\n"
                          "curl -sS --cacert ca " +
                          secure() +
                          "/hello\n"
                          "curl -sS --cacert ca --socks5-hostname 127.0.0.1:3128 " +
                          secure() +
                          "/hello\n"
                          "curl -sS " +
                          plain() + "/hello " + plain() + "/hello\n");
  EXPECT_EQ(ran.status, 0) << ran.output;
  std::string wanted;
  for (int i = 0; i < 7; ++i) wanted += "hello from the site\n";
  EXPECT_EQ(ran.output, wanted);
}

TEST_F(EgressRun, WithoutPermissionItSaysWhatToDo) {
  const Ran web = run("", "curl -sS " + plain() + "/hello; curl -sS https://api.example.org/; exit 9");
  EXPECT_EQ(web.status, 9) << "the command's own status";
  EXPECT_TRUE(has(web.output, "net.allow = [\"web.test:" + site_.http + "\"]")) << web.output;
  EXPECT_TRUE(has(web.output, "allow it with --allow-net web.test:" + site_.http)) << web.output;
  EXPECT_TRUE(has(web.output, "allow it with --allow-net api.example.org:443")) << web.output;
  const Ran json = run("--json", "curl -sS -o /dev/null " + plain() + "/hello");
  EXPECT_TRUE(has(json.output, "\"net\":[{\"host\":\"web.test\"")) << json.output;
  EXPECT_EQ(run("", "true").output, "") << "and nothing where nobody asked";
}

TEST_F(EgressRun, AWrongRuleIsAFaultBeforeAnythingRuns) {
  const Ran ran = run("--allow-net '*.com'", "echo ran");
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(has(ran.output, "*.com")) << ran.output;
  EXPECT_FALSE(has(ran.output, "ran\n"));
  EXPECT_EQ(run("--allow-net @none", "echo ran").status, 2);
  EXPECT_EQ(run("--allow-net @github", "exit 5").status, 5);
}

TEST_F(EgressRun, ARedirectToAnotherHostIsDecidedLikeEveryRequest) {
  for (const char* target : {"http://10.0.0.1/x", "http://169.254.169.254/x", "http://127.0.0.1:3128/x",
                             "http://private.test/x", "http://other.test/x"}) {
    for (const char* how : {"", "-p", "--socks5-hostname 127.0.0.1:3128 --noproxy none.test"}) {
      const std::string noproxy = std::string(how).empty() || std::string(how) == "-p" ? " --noproxy none.test" : "";
      const Ran ran = run(site_options() + " --allow-net private.test",
                          "curl -sS -L -f" + noproxy + " " + how + " " + plain() + "/redirect?" + target);
      EXPECT_NE(ran.status, 0) << target << " " << how;
      EXPECT_TRUE(has(ran.output, "refused connections")) << ran.output;
    }
  }
}

TEST_F(EgressRun, TlsForAnotherServerBehindTheSameAddressIsRefused) {
  const Ran ran = run(site_options(), "curl -sS --cacert ca --connect-to ::web.test:" + site_.https +
                                          " https://other.test:" + site_.https + "/hello");
  EXPECT_NE(ran.status, 0);
  EXPECT_TRUE(has(ran.output, "the TLS greeting names another server: other.test")) << ran.output;
}

TEST_F(EgressRun, PythonFindsTheProxyByItself) {
  const Ran ran = run(site_options(),
                      "python3 -c 'import ssl, urllib.request as r\n"
                      "print(r.urlopen(\"" +
                          plain() +
                          "/hello\").read().decode(), end=\"\")\n"
                          "c = ssl.create_default_context(cafile=\"ca\")\n"
                          "print(r.urlopen(\"" +
                          secure() + "/hello\", context=c).read().decode(), end=\"\")'");
  EXPECT_EQ(ran.output, "hello from the site\nhello from the site\n");
}

TEST_F(EgressRun, NodeGoesThroughTheProxyThatItsEnvironmentNames) {
  // Before versions 22.21 and 24.5 node's own fetch ignores the environment; its modules speak to the proxy in all.
  const Ran ran = run(site_options(), R"(cat > c.js <<'END'
const http = require('http'), tls = require('tls'), fs = require('fs');
const proxy = new URL(process.env.HTTPS_PROXY), target = process.argv[2];
http.request({host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: target}).on('connect', (answer, socket) => {
  const secure = tls.connect({socket, servername: 'web.test', ca: fs.readFileSync('ca')}, () => {
    secure.write('GET /hello HTTP/1.0\r\nHost: ' + target + '\r\n\r\n');
  });
  secure.on('data', (part) => process.stdout.write(part));
}).end();
END
echo $NODE_USE_ENV_PROXY
node c.js web.test:)" + site_.https);
  EXPECT_TRUE(has(ran.output, "1\n") && has(ran.output, "hello from the site")) << ran.output;
}

TEST_F(EgressRun, GitClonesOverHttpsAndSsh) {
  const std::string repository = site_.root() + "/site/repo.git", work = site_.root() + "/origin";
  const Ran made = shell("set -e; git init -q -b main " + work + "; cd " + work +
                         "; echo content > file; git add file; git -c user.name=n -c user.email=e@e commit -qm first; "
                         "git clone -q --bare . " +
                         repository + "; git -C " + repository + " update-server-info");
  ASSERT_EQ(made.status, 0) << made.output;
  const Ran https = run(site_options(), "GIT_SSL_CAINFO=ca git clone -q " + secure() + "/repo.git c && cat c/file");
  EXPECT_EQ(https.output, "content\n");

  // An ssh server of the test's own, which lets in the one who runs it.
  const std::string place = site_.root() + "/ssh";
  std::filesystem::create_directories(place);
  std::filesystem::create_directories("/run/sshd");
  const Ran keys =
      shell("ssh-keygen -q -t ed25519 -N '' -f " + place + "/host && ssh-keygen -q -t ed25519 -N '' -f " + place +
            "/user && cp " + place + "/user " + site_.project() + "/k && chmod 600 " + site_.project() + "/k");
  ASSERT_EQ(keys.status, 0) << keys.output;
  site_.write("ssh/config", "ListenAddress 127.0.0.1\nHostKey " + place + "/host\nAuthorizedKeysFile " + place +
                                "/user.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n");
  std::string port;
  std::unique_ptr<Helper> server;
  // sshd takes no port of the kernel's choice: one that was free a moment ago, and another if it is taken.
  ASSERT_TRUE(eventually([&] {
    port =
        shell("python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); print(s.getsockname()[1])'")
            .output;
    port.pop_back();
    server = std::make_unique<Helper>(
        std::vector<std::string>{"/usr/sbin/sshd", "-D", "-f", place + "/config", "-p", port, "-E", place + "/log"});
    return eventually(
        [&] { return shell("ssh-keyscan -p " + port + " 127.0.0.1").output.find("ed25519") != std::string::npos; },
        std::chrono::milliseconds(5000));
  }));
  const std::string user = shell("id -un").output;
  const Ran ssh = run("--allow-net web.test:" + port + " --allow-net 127.0.0.1:" + port,
                      "export GIT_SSH_COMMAND=\"$GIT_SSH_COMMAND -q -i k -o StrictHostKeyChecking=no -o "
                      "UserKnownHostsFile=/dev/null\"\ngit clone -q ssh://" +
                          user.substr(0, user.size() - 1) + "@web.test:" + port + repository + " s && cat s/file");
  EXPECT_EQ(ssh.output, "content\n") << shell("cat " + place + "/log").output;
  const Ran refused =
      run("", "GIT_SSH_COMMAND=\"$GIT_SSH_COMMAND -q\" git clone -q ssh://git@web.test:" + port + "/x y");
  EXPECT_TRUE(has(refused.output, "--allow-net web.test:" + port)) << refused.output;
}

TEST_F(EgressRun, AWardenThatRunsRecordsWhomItTalkedTo) {
  const std::string sallyport = places_in(site_.root()) + SALLYPORT_CLI " ";
  ASSERT_EQ(shell(sallyport + "up").status, 0);
  run(site_options(), "curl -sS " + plain() + "/hello; curl -sS -p http://evil.test/x");
  std::string records;
  EXPECT_TRUE(eventually([&] {
    records = shell(sallyport + "--json audit query --method egress.connect").output;
    return has(records, "evil.test:80") && has(records, "web.test:" + site_.http);
  })) << records;
  EXPECT_TRUE(has(records, "POLICY_DENIED")) << records;
  EXPECT_EQ(shell(sallyport + "down").status, 0);
}

TEST_F(EgressRun, AProxyThatIsKilledIsReplacedAndTheCommandGoesOn) {
  // The command asks, the proxy is found and killed from outside, the command asks again.
  const std::string stop = "while [ ! -e go ]; do sleep 0.1; done\n";
  site_.write("project/kill.sh", "");
  Ran ran;
  std::thread command([&] {
    ran = run(site_options(), "curl -sS " + plain() + "/hello\ntouch asked\n" + stop +
                                  "curl -sS --retry 5 --retry-connrefused " + plain() + "/hello");
  });
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(site_.project() + "/asked"); }));
  const std::string hosts = site_.root() + "/hosts";
  int killed = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string words(std::istreambuf_iterator<char>(file), {});
    if (has(words, "sallyport-egress") && has(words, hosts)) {
      killed += ::kill(std::stoi(entry.path().filename()), SIGKILL) == 0 ? 1 : 0;
    }
  }
  site_.write("project/go", "");
  command.join();
  EXPECT_EQ(killed, 1);
  EXPECT_EQ(ran.output, "hello from the site\nhello from the site\n");
}

// ---- containers of a warden ----

class EgressContainer : public Door {
 protected:
  void start_site(const std::string& allow) {
    write_profile(allow);
    start({.before_exec = [this] { ::setenv("SALLYPORT_EGRESS_HOSTS", (site_.root() + "/hosts").c_str(), 1); }});
    std::filesystem::create_directories(daemon().root() + "/profiles");
    std::ofstream(daemon().root() + "/profiles/net.toml") << profile_;
    Client client = connect();
    ASSERT_EQ(client.outcome("warden.reload"), "OK");
  }
  void write_profile(const std::string& allow) {
    profile_ =
        "[profile.net]\nfs.read = [\"/usr\", \"/etc\"]\nfs.write = [\"${workspace}\"]\nexec = [\"/usr/**\"]\n"
        "methods = [\"env.get\"]\nenv = { PATH = \"/usr/bin:/bin\" }\nnet.allow = [" +
        allow + "]\n";
  }
  void change_profile(const std::string& text) { std::ofstream(daemon().root() + "/profiles/net.toml") << text; }
  std::string site_rules() const { return "\"web.test:" + site_.http + "\", \"127.0.0.1:" + site_.http + "\""; }
  std::string create(Client& client) {
    const auto answer =
        client.call("container.create", R"({"template":"net","config":{"workspace":")" + site_.project() + R"("}})");
    if (!answer || answer->error) return answer ? answer->error->message : "CLOSED";
    return std::string(answer->result.get("container").as_string().value_or(""));
  }
  std::string exec(Client& client, const std::string& id, const std::string& script) {
    std::string output;
    const std::string params = wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().member("container", id).key("command").begin_array();
      json.value("sh").value("-c").value(script + " 2>&1").end_array().end_object();
    });
    EXPECT_TRUE(client.send_request("exec", "container.exec", params));
    while (const auto body = client.next_body()) {
      if (const auto chunk = wire::parse_chunk(as_bytes(*body)); chunk) {
        output += as_text(chunk->data);
        continue;
      }
      auto message = decode(*body);
      if (!message || message->type == wire::MessageType::response) break;
    }
    return output;
  }
  std::string get() const { return "curl -sS -m 20 http://web.test:" + site_.http + "/hello"; }
  pid_t proxy() {
    const std::string path =
        "/proc/" + std::to_string(daemon().pid()) + "/task/" + std::to_string(daemon().pid()) + "/children";
    std::ifstream children(path);
    for (pid_t pid = 0; children >> pid;) {
      std::ifstream comm("/proc/" + std::to_string(pid) + "/comm");
      std::string name;
      if (std::getline(comm, name) && name == "sallyport-egres") return pid;
    }
    return -1;
  }

  Site site_;
  std::string profile_;
};

TEST_F(EgressContainer, ReachesWhatItsProfileNamesAndItIsRecorded) {
  start_site(site_rules());
  Client client = connect(), events = connect();
  ASSERT_EQ(events.outcome("warden.subscribe", R"({"events":["container.violation"]})"), "OK");
  const std::string id = create(client);
  EXPECT_EQ(exec(client, id, get() + "?token=secret"), "hello from the site\n");
  EXPECT_TRUE(has(exec(client, id, "curl -sS https://evil.test/"), "403"));
  const auto event = events.next_message();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->params.get("layer").as_string(), "egress");
  EXPECT_EQ(event->params.get("target").as_string(), "evil.test:443");
  EXPECT_EQ(event->params.get("remedy").as_string(), "evil.test:443");
  std::string records;
  EXPECT_TRUE(eventually([&] {
    const auto answer = client.call("audit.query", R"({"method":"egress.connect"})");
    records = answer ? answer->result.to_json() : "";
    return has(records, "evil.test:443") && has(records, "outcome");
  })) << records;
  EXPECT_TRUE(has(records, "web.test:" + site_.http)) << records;
  EXPECT_TRUE(has(records, "net.allow web.test:" + site_.http)) << records;
  EXPECT_TRUE(has(records, "POLICY_DENIED")) << records;
  EXPECT_FALSE(has(records, "secret")) << records;
  const auto inspected = client.call("container.inspect", R"({"container":")" + id + "\"}");
  EXPECT_TRUE(has(inspected->result.to_json(), R"("host":"web.test")")) << inspected->result.to_json();
}

TEST_F(EgressContainer, CanBeGivenLessThanItsProfileAndNeverMore) {
  start_site(site_rules() + ", \"*.sub.test\"");
  Client client = connect();
  const auto create_with = [&](const std::string& net) {
    return client.call("container.create", R"({"template":"net","config":{"workspace":")" + site_.project() +
                                               R"(","profile":{"net":)" + net + "}}}");
  };
  const std::string web = "web.test:" + site_.http, address = "127.0.0.1:" + site_.http;
  const auto only = create_with(R"({"allow":[")" + web + R"(",")" + address + R"(","a.sub.test"]})");
  ASSERT_EQ(code_of(only), "OK");
  const std::string id(only->result.get("container").as_string().value_or(""));
  EXPECT_EQ(exec(client, id, get()), "hello from the site\n");
  EXPECT_TRUE(has(exec(client, id, "curl -sS http://b.sub.test/"), "no rule of net.allow names it"));
  const auto denied = create_with(R"({"deny":["web.test"]})");
  ASSERT_EQ(code_of(denied), "OK");
  const std::string second(denied->result.get("container").as_string().value_or(""));
  EXPECT_TRUE(has(exec(client, second, get()), "net.deny"));
  // It stays narrow when the profile is read again.
  ASSERT_EQ(client.outcome("warden.reload"), "OK");
  EXPECT_TRUE(has(exec(client, second, get()), "net.deny"));
  const auto none = create_with(R"({"allow":[]})");
  ASSERT_EQ(code_of(none), "OK");
  EXPECT_TRUE(has(exec(client, std::string(none->result.get("container").as_string().value_or("")),
                       "curl -sS -x http://127.0.0.1:3128 http://web.test/"),
                  "connect"))
      << "no proxy at all";
  for (const char* wider :
       {R"({"allow":["evil.test"]})", R"({"allow":["*.test"]})", R"({"allow":["sub.test"]})",
        R"({"allow":["web.test"]})", R"({"allow":["*"]})", R"({"deny":["*"]})", R"({"all":true})"}) {
    EXPECT_EQ(code_of(create_with(wider)), "INVALID_PARAMS") << wider;
  }
}

TEST_F(EgressContainer, SeesTheProxyInItsEnvironment) {
  start_site(site_rules());
  Client client = connect();
  const std::string id = create(client);
  const auto answer =
      client.call("env.get", R"({"container":")" + id + R"(","names":["HTTPS_PROXY","no_proxy","GIT_SSH_COMMAND"]})");
  ASSERT_EQ(code_of(answer), "OK");
  const std::string values = answer->result.to_json();
  EXPECT_TRUE(has(values, "http://127.0.0.1:3128") && has(values, "ProxyCommand")) << values;
  EXPECT_FALSE(has(values, "localhost")) << "a rule names the host's: " << values;
}

TEST_F(EgressContainer, FollowsItsProfileWhenThatIsReloadedAndAFaultDeniesAll) {
  start_site(site_rules());
  Client client = connect();
  const std::string id = create(client);
  EXPECT_EQ(exec(client, id, get()), "hello from the site\n");
  write_profile("\"other.test\"");
  change_profile(profile_);
  ASSERT_EQ(client.outcome("warden.reload"), "OK");
  EXPECT_TRUE(eventually([&] { return has(exec(client, id, get()), "no rule of net.allow names it"); }));
  change_profile("[profile.net]\nnet.allow = [\"*\"]\n");
  const auto failed = client.call("warden.reload");
  EXPECT_EQ(code_of(failed), "INVALID_PARAMS");
  EXPECT_TRUE(has(failed->error->message, "net.toml:2")) << failed->error->message;
  EXPECT_TRUE(eventually([&] { return has(exec(client, id, get()), "has a fault"); }));
  EXPECT_TRUE(daemon().logs("denied to all containers"));
  const std::string late = create(client);
  EXPECT_TRUE(has(exec(client, late, get()), "has a fault")) << "also for those that come later";
  // A fault elsewhere, and the profile is mended: nothing of it is in force yet.
  write_profile(site_rules());
  change_profile(profile_);
  const std::string config = DaemonOptions().config;
  daemon().write_config(config + "no such thing\n");
  const auto again = client.call("warden.reload");
  EXPECT_TRUE(has(again->error->message, "the network is denied to all containers")) << again->error->message;
  EXPECT_EQ(client.call("warden.status")->result.get("config").get("network_denied").as_bool(), true);
  EXPECT_TRUE(has(exec(client, id, get()), "has a fault"));
  daemon().write_config(config);
  ASSERT_EQ(client.outcome("warden.reload"), "OK");
  EXPECT_FALSE(client.call("warden.status")->result.get("config").get("network_denied"));
  EXPECT_TRUE(eventually([&] { return exec(client, id, get()) == "hello from the site\n"; }));
}

TEST_F(EgressContainer, AListThatCannotBeReadDeniesAllAndEndsNothing) {
  start_site(site_rules() + ", \"@npm\"");
  Client client = connect();
  const std::string id = create(client);
  EXPECT_EQ(exec(client, id, get()), "hello from the site\n");
  const std::string lists = daemon().root() + "/net.lists", list = lists + "/npm";
  std::filesystem::create_directories(lists);
  const auto expect_denied = [&](const std::string& why) {
    const auto failed = client.call("warden.reload");
    EXPECT_EQ(code_of(failed) == "OK", false) << why;
    EXPECT_TRUE(failed && has(failed->error->message, why)) << failed->error->message;
    EXPECT_TRUE(failed && has(failed->error->message, "the network is denied to all containers"));
    EXPECT_TRUE(eventually([&] { return has(exec(client, id, get()), "has a fault"); })) << why;
    std::filesystem::remove_all(list);
    ASSERT_EQ(client.outcome("warden.reload"), "OK");
    EXPECT_TRUE(eventually([&] { return exec(client, id, get()) == "hello from the site\n"; })) << why;
  };
  std::filesystem::create_directories(list);
  expect_denied("is no ordinary file");
  ASSERT_EQ(::mkfifo(list.c_str(), 0600), 0);
  expect_denied("is no ordinary file");
  std::filesystem::create_symlink("nowhere", list);
  expect_denied("leads nowhere");
  {
    std::ofstream many(list);
    for (int i = 0; i < 10'000; ++i) many << "host-" << i << ".example.org\n";
  }
  const pid_t before = proxy();
  expect_denied("bytes of rules");
  EXPECT_EQ(proxy(), before) << "nobody's connections were ended for it";
}

TEST_F(EgressContainer, WhatItCameToIsKnownWhenItIsOver) {
  start_site(site_rules());
  Client client = connect();
  const std::string id = create(client);
  EXPECT_EQ(exec(client, id, get()), "hello from the site\n");
  EXPECT_TRUE(has(exec(client, id, "curl -sS http://evil.test/"), "no rule of net.allow names it"));
  EXPECT_EQ(client.outcome("container.stop", R"({"container":")" + id + R"(","grace_ms":0})"), "OK");
  const auto inspected = client.call("container.inspect", R"({"container":")" + id + "\"}");
  const std::string shown = inspected->result.to_json();
  EXPECT_TRUE(has(shown, R"("host":"web.test")")) << shown;
  EXPECT_TRUE(has(shown, R"("remedy":"evil.test:80")")) << shown;
}

TEST_F(EgressContainer, OutlivesItsProxy) {
  start_site(site_rules());
  Client client = connect();
  const std::string id = create(client);
  ASSERT_EQ(exec(client, id, get()), "hello from the site\n");
  const pid_t first = proxy();
  ASSERT_GT(first, 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return proxy() > 0 && proxy() != first; }));
  EXPECT_EQ(exec(client, id, get()), "hello from the site\n");
  EXPECT_EQ(client.outcome("container.stop", R"({"container":")" + id + R"(","grace_ms":0})"), "OK");
}

TEST_F(EgressContainer, OneContainersRulesAreNotAnothers) {
  start_site(site_rules());
  Client client = connect();
  const std::string with = create(client);
  const auto without = client.call("container.create", R"({"config":{"workspace":")" + site_.project() + R"("}})");
  ASSERT_EQ(code_of(without), "OK");
  const std::string id(without->result.get("container").as_string().value_or(""));
  EXPECT_TRUE(has(exec(client, id, "curl -sS -x http://127.0.0.1:3128 http://web.test/"), "connect"))
      << "it has no proxy";
  EXPECT_EQ(exec(client, with, get()), "hello from the site\n");
  // Its own port cannot be taken over from inside.
  EXPECT_TRUE(has(exec(client, with,
                       "python3 -c 'import socket; s = socket.socket(); s.setsockopt(1, 15, 1); "
                       "s.setsockopt(1, 2, 1); s.bind((\"127.0.0.1\", 3128)); s.listen()'"),
                  "Address already in use"));
}

}  // namespace
}  // namespace sallyport::testing

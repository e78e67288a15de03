// Real clients in real sandboxes, and the servers that they may and may not reach.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "e2e/door.h"

namespace sallyport::testing {
namespace {

struct Ran {
  int status = -1;
  std::string output;  // both streams
};

Ran shell(const std::string& command) {
  Ran ran;
  std::FILE* pipe = ::popen(("{ " + command + "\n} 2>&1 </dev/null").c_str(), "r");
  if (pipe == nullptr) return ran;
  char block[4096];
  std::size_t count = 0;
  while ((count = std::fread(block, 1, sizeof block, pipe)) > 0) ran.output.append(block, count);
  const int status = ::pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A process of the test's that says one line and lives until its input ends.
class Helper {
 public:
  explicit Helper(std::vector<std::string> words) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_ = UniqueFd(in[1]);
    out_ = UniqueFd(out[0]);
  }
  ~Helper() {
    in_.reset();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  std::string line() const {
    std::string line;
    char c = 0;
    while (::read(out_.get(), &c, 1) == 1 && c != '\n') line += c;
    return line;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd in_, out_;
};

// A site, web.test, on two loopback ports; and a project to work in.
class Site {
 public:
  Site() {
    for (const char* name : {"/site", "/project", "/home"}) std::filesystem::create_directories(root() + name);
    write("site/hello", "hello from the site\n");
    write("hosts", "127.0.0.1 web.test\n127.0.0.1 other.test\n10.0.0.1 private.test\n");
    const Ran made = shell(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
        "/CN=web.test -addext subjectAltName=DNS:web.test -keyout " +
        root() + "/key -out " + root() + "/project/ca");
    EXPECT_EQ(made.status, 0) << made.output;
    server_ = std::make_unique<Helper>(std::vector<std::string>{
        "python3", TEST_HELPERS "/web_server.py", root() + "/site", root() + "/project/ca", root() + "/key"});
    const std::string ports = server_->line();
    http = ports.substr(0, ports.find(' '));
    https = ports.substr(ports.find(' ') + 1);
  }
  const std::string& root() const { return root_.path(); }
  std::string project() const { return root() + "/project"; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(root() + "/" + name) << text; }

  std::string http, https;  // ports

 private:
  TemporaryDirectory root_;
  std::unique_ptr<Helper> server_;
};

class EgressRun : public ::testing::Test {
 protected:
  // Everything on the site is allowed, by name and by address.
  std::string site_options() const {
    std::string options;
    for (const std::string& port : {site_.http, site_.https}) {
      options += " --allow-net web.test:" + port + " --allow-net 127.0.0.1:" + port;
    }
    return options;
  }
  Ran run(const std::string& options, const std::string& script) const {
    site_.write("project/script", script);
    return shell("cd " + site_.project() + " && HOME=" + site_.root() + "/home SALLYPORT_RUNTIME_DIR=" + site_.root() +
                 "/run SALLYPORT_STATE_DIR=" + site_.root() + "/state SALLYPORT_CONFIG=" + site_.root() +
                 "/sallyport.toml SALLYPORT_EGRESS_HOSTS=" + site_.root() + "/hosts " SALLYPORT_CLI " run " + options +
                 " -- timeout 60 sh script");
  }
  std::string plain() const { return "http://web.test:" + site_.http; }
  std::string secure() const { return "https://web.test:" + site_.https; }

  Site site_;
};

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

TEST_F(EgressRun, NpmReadsItsRegistryThroughTheProxy) {
  if (shell("command -v npm").status != 0) return;  // Debian's pulls in hundreds of packages: not asked for
  site_.write(
      "site/left",
      R"({"name":"left","dist-tags":{"latest":"1.2.3"},"versions":{"1.2.3":{"name":"left","version":"1.2.3"}}})");
  const Ran ran = run(site_options(), "npm view left version --registry " + plain() + "/ 2>&1");
  EXPECT_TRUE(has(ran.output, "1.2.3")) << ran.output;
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
  const std::string sallyport = "SALLYPORT_RUNTIME_DIR=" + site_.root() + "/run SALLYPORT_STATE_DIR=" + site_.root() +
                                "/state SALLYPORT_CONFIG=" + site_.root() + "/sallyport.toml " SALLYPORT_CLI " ";
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

TEST_F(EgressContainer, SeesTheProxyInItsEnvironment) {
  start_site(site_rules());
  Client client = connect();
  const std::string id = create(client);
  const auto answer =
      client.call("env.get", R"({"container":")" + id + R"(","names":["HTTPS_PROXY","no_proxy","GIT_SSH_COMMAND"]})");
  ASSERT_EQ(code_of(answer), "OK");
  const std::string values = answer->result.to_json();
  EXPECT_TRUE(has(values, "http://127.0.0.1:3128") && has(values, "localhost") && has(values, "ProxyCommand"))
      << values;
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
  write_profile(site_rules());
  change_profile(profile_);
  ASSERT_EQ(client.outcome("warden.reload"), "OK");
  EXPECT_TRUE(eventually([&] { return exec(client, id, get()) == "hello from the site\n"; }));
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

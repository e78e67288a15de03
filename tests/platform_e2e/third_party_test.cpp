// Adapters that others wrote: pinned, confined, started again.
#include <csignal>

#include <iterator>

#include "os/files.h"
#include "platform_e2e/fixture.h"
#include "platform_e2e/party.h"
#include "support/attacker.h"
#include "wire/crypto.h"

namespace sallyport::testing {
namespace {

using platform::Role;

class PlatformThirdParty : public PlatformDoor {
 protected:
  static std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string config(const std::string& program, const std::string& sha256, const std::string& more = "") {
    return "[platform]\nallow_adapters = [\"mine\"]\n[platform.adapters]\ncache = \"mine\"\n"
           "[platform.third_party.mine]\npath = \"" +
           program + "\"\nsha256 = \"" + sha256 + "\"\nroles = [\"cache\"]\n" + more;
  }
  static std::string hash(const std::string& content) { return to_hex(wire::sha256(as_bytes(content))); }
  const std::string sample_ = std::string(SALLYPORT_EXAMPLES) + "/adapter-python/adapter.py";
};

TEST_F(PlatformThirdParty, TheSampleServesACacheFromItsSandboxAndIsStartedAgain) {
  start_platform(config(sample_, hash(read_file(sample_))));
  const auto platform = platform_of(make_container());
  ASSERT_TRUE(platform->adapter(Role::cache).is_ready()) << platform->adapter(Role::cache).reason << daemon().log();
  auto cache = platform->cache();
  ASSERT_TRUE(cache.set("k", "v"));
  EXPECT_EQ(*cache.get("k"), "v");
  EXPECT_EQ(*cache.incr("n", 2), 2);
  EXPECT_FALSE(*cache.set_if_absent("k", "w"));
  EXPECT_EQ(cache.set("binary", std::string("\xff\0", 2)).error().code, Code::unimplemented);
  EXPECT_EQ(*cache.clear(), 2);
}

TEST_F(PlatformThirdParty, AttackAProgramThatIsNotWhatWasPinnedIsNotRun) {
  const TemporaryDirectory directory;
  const std::string program = directory.path() + "/adapter.py";
  std::filesystem::copy(sample_, program);
  std::ofstream(program, std::ios::app) << "\n# changed\n";
  start_platform(
      "[platform]\non_init_failure = \"error\"\nallow_adapters = [\"mine\"]\n[platform.adapters]\ncache = \"mine\"\n"
      "[platform.third_party.mine]\npath = \"" +
      program + "\"\nsha256 = \"" + hash(read_file(sample_)) + "\"\nroles = [\"cache\"]\n");
  EXPECT_EQ(as_container(make_container()).outcome("cache.get", R"({"key":"a"})"), "UNAVAILABLE");
  EXPECT_TRUE(daemon().logs("not what was pinned"));
}

// Says what it can see instead of caching.
constexpr const char* kSpy = R"py(#!/usr/bin/env python3
import json, os, socket, struct
s = socket.socket(fileno=3)
secret = ""
while True:
  head = s.recv(4, socket.MSG_WAITALL)
  if len(head) < 4: break
  m = json.loads(s.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL))
  if m["type"] != "request": continue
  p = m.get("params", {})
  if m["method"] == "adapter.init":
    secret = p.get("credential", "")
    r = {"protocol": 1, "roles": ["cache"]}
  elif p["key"] == "die":
    os._exit(1)
  elif p["key"] == "garbage":
    s.sendall(b"\x00\x00\x00\x05junk!")
    continue
  else:
    net = "reached"
    try: socket.create_connection(("127.0.0.1", int(p["key"])), 1).close()
    except OSError as e: net = type(e).__name__
    r = {"found": True, "value": json.dumps({"env": sorted(os.environ), "net": net, "secret": len(secret),
         "home": os.path.exists(os.path.expanduser("~/.bashrc")), "tenant": p["$tenant"], "fds": sorted(os.listdir("/proc/self/fd"))})}
  b = json.dumps({"id": m["id"], "type": "response", "result": r}).encode()
  s.sendall(struct.pack(">I", len(b)) + b)
)py";

TEST_F(PlatformThirdParty, AttackItSeesOnlyItsCredentialAndNoNetwork) {
  const TemporaryDirectory directory;
  WebServer web([](const auto&, int connection) { WebServer::write(connection, WebServer::json("{}")); });
  const std::string program = directory.path() + "/spy.py";
  std::ofstream(program) << kSpy;
  start_platform(config(program, hash(kSpy),
                        "credential = \"own\"\n[platform.credentials.own]\nfrom_env = \"OWN_KEY\"\n"
                        "[platform.credentials.foreign]\nfrom_env = \"FOREIGN_KEY\"\n"),
                 kAllGrants, [] {
                   ::setenv("OWN_KEY", "12345", 1);
                   ::setenv("FOREIGN_KEY", "67890", 1);
                 });
  const auto platform = platform_of(make_container());
  ASSERT_TRUE(platform->adapter(Role::cache).is_ready()) << daemon().log();
  const std::string port = web.url().substr(17, web.url().rfind('/') - 17);
  const auto seen = platform->cache().get(port);
  ASSERT_TRUE(seen && *seen) << daemon().log();
  wire::Decoder decoder;
  const auto document = decoder.parse(**seen);
  const wire::Value report = document->root();
  EXPECT_EQ(report.get("secret").as_int(), 5);
  EXPECT_NE(report.get("net").as_string(), "reached") << **seen;
  EXPECT_EQ(report.get("tenant").as_string(), "profile.plugin");
  EXPECT_EQ(report.get("env").to_json().find("KEY"), std::string::npos) << **seen;
  EXPECT_EQ(report.get("home").as_bool(), false);
  EXPECT_TRUE(web.requests().empty());
}

// Fetches the address that a key names through the proxy that its environment names, and says what came of it.
constexpr const char* kFetcher = R"py(#!/usr/bin/env python3
import http.client, json, os, socket, struct
s = socket.socket(fileno=3)
def fetch(place):
  proxy = os.environ.get("http_proxy", "")
  if not proxy: return "no proxy"
  host, port = proxy[len("http://"):].rsplit(":", 1)
  c = http.client.HTTPConnection(host, int(port), timeout=20)
  c.request("GET", "http://" + place + "/v1/hello")
  r = c.getresponse()
  return str(r.status) + " " + r.read().decode()
while True:
  head = s.recv(4, socket.MSG_WAITALL)
  if len(head) < 4: break
  m = json.loads(s.recv(struct.unpack(">I", head)[0], socket.MSG_WAITALL))
  if m["type"] != "request": continue
  if m["method"] == "adapter.init": r = {"protocol": 1, "roles": ["cache"]}
  else:
    try: said = fetch(m["params"]["key"])
    except OSError as e: said = type(e).__name__
    r = {"found": True, "value": said}
  b = json.dumps({"id": m["id"], "type": "response", "result": r}).encode()
  s.sendall(struct.pack(">I", len(b)) + b)
)py";

TEST_F(PlatformThirdParty, ReachesExactlyTheHostsThatAreNamedForIt) {
  const TemporaryDirectory directory;
  const auto hello = [](const auto&, int connection) { WebServer::write(connection, WebServer::json("\"hello\"")); };
  WebServer named(hello), other(hello);
  const auto place = [](const WebServer& web) { return web.url().substr(7, web.url().rfind('/') - 7); };
  const std::string program = directory.path() + "/fetcher.py";
  std::ofstream(program) << kFetcher;
  start_platform(config(program, hash(kFetcher), "hosts = [\"" + place(named) + "\"]\n"));
  const auto platform = platform_of(make_container());
  ASSERT_TRUE(platform->adapter(Role::cache).is_ready()) << daemon().log();
  EXPECT_EQ(**platform->cache().get(place(named)), "200 \"hello\"") << daemon().log();
  EXPECT_EQ(named.requests().size(), 1U);
  // Another port of the same address, a name that resolves to it, and what is public: none of them was named.
  for (const std::string& refused : {place(other), "localhost" + place(named).substr(9), std::string("192.0.2.1:80")}) {
    EXPECT_TRUE((*platform->cache().get(refused))->starts_with("403")) << refused;
  }
  EXPECT_TRUE(other.requests().empty());
  // The warden heard of each, and has it in the ledger, in the adapter's name.
  Client host = connect();
  EXPECT_TRUE(eventually([&] {
    const std::string records = host.call("audit.query", R"({"method":"egress.connect"})")->result.to_json();
    return records.find("adapter/mine/" + place(named)) != std::string::npos &&
           records.find("adapter/mine/" + place(other)) != std::string::npos &&
           records.find("POLICY_DENIED") != std::string::npos;
  }));
  EXPECT_TRUE(daemon().logs("a third-party adapter was refused a connection"));
}

TEST_F(PlatformThirdParty, ItsHostsAreServedAgainAfterItOrItsProxyDied) {
  const TemporaryDirectory directory;
  WebServer web([](const auto&, int connection) { WebServer::write(connection, WebServer::json("1")); });
  const std::string place = web.url().substr(7, web.url().rfind('/') - 7);
  const std::string program = directory.path() + "/fetcher.py";
  std::ofstream(program) << kFetcher;
  start_platform(config(program, hash(kFetcher), "hosts = [\"" + place + "\"]\n"));
  const std::string id = make_container();
  const auto reaches = [&] {
    Client worker = as_container(id);
    return member(worker, "cache.get", R"({"key":")" + place + "\"}", "value") == "\"200 1\"";
  };
  ASSERT_TRUE(eventually(reaches)) << daemon().log();
  const std::string adapters = std::to_string(adapters_pid());
  std::ifstream children("/proc/" + adapters + "/task/" + adapters + "/children");
  std::vector<pid_t> helpers(std::istream_iterator<pid_t>(children), {});
  ASSERT_EQ(helpers.size(), 2U) << "a launcher and a proxy";
  for (const pid_t helper : helpers) {
    ASSERT_EQ(::kill(helper, SIGKILL), 0);
    EXPECT_TRUE(eventually(reaches)) << daemon().log();
  }
}

TEST_F(PlatformThirdParty, AProfilesAllowedHostsCoverThoseOfAThirdParty) {
  const TemporaryDirectory directory;
  const std::string program = directory.path() + "/fetcher.py";
  std::ofstream(program) << kFetcher;
  start_platform(config(program, hash(kFetcher), "hosts = [\"api.example.com:8443\"]\n"),
                 std::string("allowed_hosts = [\"other.example.com\"]\n") + kAllGrants);
  EXPECT_EQ(as_container(make_container()).outcome("cache.get", R"({"key":"x"})"), "POLICY_DENIED");
}

TEST_F(PlatformThirdParty, OneThatDiesOrTalksNonsenseIsStartedAgain) {
  const TemporaryDirectory directory;
  const std::string program = directory.path() + "/spy.py";
  std::ofstream(program) << kSpy;
  start_platform(config(program, hash(kSpy)));
  Client worker = as_container(make_container());
  for (const char* key : {"die", "garbage"}) {
    ASSERT_TRUE(eventually([&] { return worker.outcome("cache.get", R"({"key":"1"})") == "OK"; })) << key;
    Bytes frame;
    ASSERT_TRUE(wire::append_request(frame, {.id = "x", .method = "cache.get", .deadline_ms = 1000, .token = {}},
                                     R"({"key":")" + std::string(key) + "\"}"));
    ASSERT_TRUE(worker.send(text_of(frame)));
    const std::string code = code_of(worker.next_message());
    EXPECT_TRUE(code == "IO_ERROR" || code == "TIMEOUT") << key << code;
  }
}

// Refuses with the code that a key is, and says too much.
constexpr const char* kChatty = R"py(
def answer(method, p):
  raise Refused(p["key"], "Traceback: password=hunter2 " + secret, {"host": "10.0.0.1"})
)py";

TEST_F(PlatformThirdParty, AttackWhatItSaysOfFailuresIsNotPassedOnAndItCannotSpeakForTheHost) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(os::write_private_file(directory.path() + "/key", "canary-12345\n"));
  const PythonParty chatty("cache", kChatty);
  start_platform(chatty.config("credential = \"own\"\n[platform.credentials.own]\nfrom_file = \"" + directory.path() +
                               "/key\"\n"));
  Client worker = as_container(make_container());
  const std::pair<const char*, const char*> cases[] = {
      {"NOT_FOUND", "NOT_FOUND"},         {"CONFLICT", "CONFLICT"},          {"POLICY_DENIED", "UNAVAILABLE"},
      {"APPROVAL_DENIED", "UNAVAILABLE"}, {"QUOTA_EXCEEDED", "UNAVAILABLE"}, {"INTERNAL_ERROR", "UNAVAILABLE"},
      {"UNAUTHENTICATED", "UNAVAILABLE"},
  };
  for (const auto& [said, heard] : cases) {
    const auto answer = worker.call("cache.get", R"({"key":")" + std::string(said) + "\"}");
    ASSERT_EQ(code_of(answer), heard) << said << daemon().log();
    EXPECT_EQ(answer->error->message.find("hunter2"), std::string::npos);
    EXPECT_EQ(answer->error->details_json.find("10.0.0.1"), std::string::npos);
  }
  EXPECT_TRUE(daemon().logs("party says POLICY_DENIED: (holds its credential)"));
  EXPECT_EQ(daemon().log().find("canary-12345"), std::string::npos);
}

// The command line believes whoever tells it that a human is asked, or that nothing can be recorded.
TEST_F(PlatformThirdParty, AttackItsEventsAreOfItsRoleOnly) {
  const PythonParty party("llm", R"py(
def answer(method, params):
  for name in ("approval.asked", "audit.delayed", "container.started", "pod.exit", "llm.token", "stream.reset", "cancel"):
    b = json.dumps({"type": "event", "id": m["id"], "method": name, "params": {"id": "x", "text": "y"}}).encode()
    s.sendall(struct.pack(">I", len(b)) + b)
  return {"text": "y", "finish_reason": "stop", "is_model": False}
)py");
  start_platform(party.config());
  Client worker = as_container(make_container());
  ASSERT_TRUE(worker.send_request("s", "llm.stream", R"({"messages":[{"role":"user","content":"hi"}]})"));
  std::string heard;
  for (auto message = worker.next_message(); message; message = worker.next_message()) {
    if (message->type != wire::MessageType::event) {
      EXPECT_EQ(code_of(message), "OK");
      break;
    }
    heard += std::string(message->method) + " ";
  }
  EXPECT_EQ(heard, "llm.token ");
}

// What the adapters tell the warden of themselves, they say of no request.
TEST_F(PlatformThirdParty, AttackItWritesNoRecordsAndSpeaksToNoSubscriber) {
  const PythonParty party("cache", R"py(
def answer(method, params):
  forged = {"adapter": "another", "report": {"kind": "opened", "protocol": "connect", "host": "forged.example", "port": 443},
            "to": [str(n) for n in range(200)], "topic": "t", "payload": "forged"}
  for name in ("adapters.connection", "events.message"):
    b = json.dumps({"type": "event", "id": m["id"], "method": name, "params": forged}).encode()
    s.sendall(struct.pack(">I", len(b)) + b)
  return {"found": False}
)py");
  std::string config = party.config();
  config.replace(config.find("[\"party\"]"), 9, R"(["party", "memory"])");
  config.replace(config.find("cache = "), 0, "events = \"memory\"\n");
  start_platform(config);
  const std::string container = make_container();
  Client listener = as_container(container), worker = as_container(container);
  ASSERT_TRUE(listener.send_request("s", "events.subscribe", R"({"topics":["*"]})"));
  ASSERT_EQ(listener.next_message()->method, "events.subscribed");
  ASSERT_EQ(worker.outcome("cache.get", R"({"key":"k"})"), "OK");
  ASSERT_EQ(worker.outcome("events.publish", R"({"topic":"t","payload":"true"})"), "OK");
  const auto heard = listener.next_message();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->params.get("payload").as_string(), "true");
  EXPECT_EQ(connect().call("audit.query", R"({"method":"egress.connect"})")->result.to_json().find("forged"),
            std::string::npos);
}

// What names a stream on its own connection would name another one, or none, on that of all.
TEST_F(PlatformThirdParty, AttackAnEventThatNamesAStreamIsNotPassedOn) {
  const PythonParty party("llm", R"py(
def answer(method, params):
  for number in (2, 4, 6, 8):
    b = json.dumps({"type": "event", "id": m["id"], "method": "llm.token", "params": {"text": "y", "more": {"$stream": number}}}).encode()
    s.sendall(struct.pack(">I", len(b)) + b)
  return {"text": "y", "finish_reason": "stop", "is_model": False}
)py");
  start_platform(party.config());
  Client worker = as_container(make_container());
  const pid_t adapters = adapters_pid();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(worker.send_request("s", "llm.stream", R"({"messages":[{"role":"user","content":"hi"}]})"));
    auto message = worker.next_message();
    ASSERT_TRUE(message);
    EXPECT_NE(message->type, wire::MessageType::event);
    EXPECT_EQ(code_of(message), "OK");
  }
  EXPECT_EQ(adapters_pid(), adapters) << daemon().log();
}

TEST_F(PlatformThirdParty, OneThatDoesNotNameItsRoleIsNotUsed) {
  const PythonParty party("vector", "def answer(method, p): return {}\n");
  std::string config = party.config();
  for (std::size_t at = 0; (at = config.find("vector", at)) != std::string::npos;) config.replace(at, 6, "cache");
  start_platform(config);
  Client worker = as_container(make_container());
  EXPECT_EQ(member(worker, "cache.get", R"({"key":"a"})", "noop"), "true");
  EXPECT_TRUE(daemon().logs("does not say that it has its role"));
}

TEST_F(PlatformThirdParty, AnOrdinaryUserHasAllOfItToo) {
  if (!is_root()) GTEST_SKIP() << "needs root to become somebody else; every other test is this one then";
  const std::string text = config(sample_, hash(read_file(sample_)));
  // In a child that is nobody, with a warden of its own; the number says which step failed.
  EXPECT_EQ(in_child([&] {
              become_ordinary();
              Daemon own;
              own.write_config(
                  "[platform]\nallow_adapters = [\"mine\", \"files\"]\n[platform.adapters]\nstorage = \"files\"\n" +
                  text.substr(text.find("cache = ")));
              std::filesystem::create_directories(own.root() + "/profiles");
              std::ofstream(own.root() + "/profiles/plugin.toml") << "[profile.plugin]" << kPluginProfile << kAllGrants;
              if (!own.start()) return 1;
              Client client = Client::unix_socket(own.socket_path());
              const auto made = client.call("container.create", R"({"template":"plugin"})");
              if (code_of(made) != "OK") return 2;
              const std::string id(made->result.get("container").as_string().value_or(""));
              if (client.outcome("session.narrow", R"({"container":")" + id + "\"}") != "OK") return 3;
              if (client.outcome("storage.write", R"({"key":"a","value":"x"})") != "OK") return 4;
              if (member(client, "storage.read", R"({"key":"a"})", "value") != "\"x\"") return 5;
              if (member(client, "cache.set", R"({"key":"a","value":"x"})", "set") != "true") return 6;
              if (member(client, "cache.get", R"({"key":"a"})", "value") != "\"x\"") return 7;
              return own.stop() == 0 ? 0 : 8;
            }),
            0);
}

}  // namespace
}  // namespace sallyport::testing

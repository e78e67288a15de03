// Who may ask what of the platform: permissions, tenants, methods, and what must not leak.
#include <sys/stat.h>

#include "platform_e2e/fixture.h"

namespace sallyport::testing {
namespace {

constexpr const char* kLocal = R"(
[platform.adapters]
storage = "files"
cache = "memory"
vector = "sqlite"
llm = "echo"
embeddings = "hashing"
events = "memory"
)";

class PlatformAccess : public PlatformDoor {};

TEST_F(PlatformAccess, AWorkerWritesAndReadsByNameAndSeesNothingOfTheHostsEnvironment) {
  start_platform(kLocal, kAllGrants, [] { ::setenv("HOST_SECRET", "x", 1); });
  std::filesystem::create_directories(daemon().root() + "/workspace");
  const std::string id = make_container("plugin", R"({"workspace":")" + daemon().root() + R"(/workspace"})");
  std::ofstream(daemon().root() + "/workspace/ask.py") << R"(
import json, os, socket, struct
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["SALLYPORT_DOOR"])
def call(method, **params):
  b = json.dumps({"id": "1", "type": "request", "method": method, "params": params}).encode()
  s.sendall(struct.pack(">I", len(b)) + b)
  n = struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))[0]
  m = json.loads(s.recv(n, socket.MSG_WAITALL))
  return m["error"]["code"] if "error" in m else m["result"]
print(call("storage.write", key="a", value="from inside")["size"], call("storage.read", key="a")["value"])
print(call("platform.init", protocol=1)["tenant"], sorted(os.environ))
)";
  Client client = connect();
  ASSERT_TRUE(
      client.send_request("x", "container.exec", R"({"container":")" + id + R"(","command":["python3","ask.py"]})"));
  std::string out;
  while (const auto body = client.next_body()) {
    if (const auto chunk = wire::parse_chunk(as_bytes(*body)); chunk) {
      out += as_text(chunk->data);
      continue;
    }
    if (auto message = decode(*body); message && message->type == wire::MessageType::response) break;
  }
  EXPECT_TRUE(out.starts_with("11 from inside\nprofile.plugin ")) << out;
  EXPECT_EQ(out.find("HOST_SECRET"), std::string::npos);
  EXPECT_NE(out.find("SALLYPORT_DOOR"), std::string::npos);
}

TEST_F(PlatformAccess, WithoutAGrantOrAMethodNothingIsDone) {
  start_platform(kLocal, "permissions.adapters.cache = { namespaces = [\"mine\"], access = \"read\" }\n");
  Client worker = as_container(make_container());
  EXPECT_EQ(worker.outcome("storage.read", R"({"key":"a"})"), "POLICY_DENIED");
  EXPECT_EQ(worker.outcome("cache.get", R"({"namespace":"other","key":"a"})"), "POLICY_DENIED");
  EXPECT_EQ(worker.outcome("cache.get", R"({"key":"a"})"), "POLICY_DENIED") << "the default namespace is not granted";
  EXPECT_EQ(worker.outcome("cache.get", R"({"namespace":"mine","key":"a"})"), "OK");
  EXPECT_EQ(worker.outcome("cache.set", R"({"namespace":"mine","key":"a","value":"x"})"), "POLICY_DENIED");
  EXPECT_EQ(worker.outcome("log.write", R"({"message":"x"})"), "POLICY_DENIED");
}

TEST_F(PlatformAccess, SizesAndModelsAreTheProfiles) {
  start_platform(kLocal,
                 "permissions.adapters.storage = { buckets = [\"*\"], max_bytes = 10 }\n"
                 "permissions.adapters.llm = { models = [\"small\"], max_tokens = 2 }\n");
  Client worker = as_container(make_container());
  EXPECT_EQ(worker.outcome("storage.write", R"({"key":"a","value":"12345678901"})"), "PAYLOAD_TOO_LARGE");
  Client streaming = as_container(make_container());
  EXPECT_EQ(streaming.outcome("storage.write", R"({"key":"a","value":{"$stream":1},"size":11})"), "PAYLOAD_TOO_LARGE");
  EXPECT_EQ(worker.outcome("llm.complete", R"({"model":"large","messages":[{"role":"user","content":"x"}]})"),
            "POLICY_DENIED");
  EXPECT_EQ(
      member(worker, "llm.complete", R"({"max_tokens":50,"messages":[{"role":"user","content":"a b c d"}]})", "text"),
      "\"a b\"");
}

TEST_F(PlatformAccess, AllowedHostsKeepAnAdapterFromAProfile) {
  WebServer web([](const auto&, int connection) { WebServer::write(connection, WebServer::json("{}")); });
  start_platform("[platform.adapters]\nllm = \"openai\"\n[platform.adapter_options.openai]\nurl = \"" + web.url() +
                     "\"\nmodels = { small = \"m\" }\n",
                 "allowed_hosts = [\"api.example.com\"]\npermissions.adapters.llm = { models = [\"*\"] }\n");
  Client worker = as_container(make_container());
  EXPECT_EQ(worker.outcome("llm.complete", R"({"messages":[{"role":"user","content":"x"}]})"), "POLICY_DENIED");
}

// ---- holes of the first proxy, and attacks ----

TEST_F(PlatformAccess, AttackAWorkerThatClaimsAnotherTenantPluginOrPermissionIsRefused) {
  start_platform(kLocal);
  write_profile("other", "permissions.adapters.cache = { namespaces = [\"*\"] }\n");
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  Client one = as_container(make_container()), two = as_container(make_container("other"));
  ASSERT_EQ(one.outcome("cache.set", R"({"key":"a","value":"secret of one"})"), "OK");
  for (const char* claim : {R"("tenant":"profile.plugin")", R"("$tenant":"profile.plugin")", R"("plugin":"plugin")",
                            R"("permissions":{"cache":true})", R"("container":"x")"}) {
    EXPECT_EQ(two.outcome("cache.get", R"({"key":"a",)" + std::string(claim) + "}"), "INVALID_PARAMS") << claim;
  }
  EXPECT_EQ(member(two, "cache.get", R"({"key":"a"})", "found"), "false");
  EXPECT_EQ(member(two, "cache.get", R"({"namespace":"../profile.plugin\u0000default","key":"a"})", "found"), "false");
  EXPECT_EQ(member(one, "cache.get", R"({"key":"a"})", "found"), "true");
}

TEST_F(PlatformAccess, AttackAMethodThatIsNotInTheTableIsNotReachableByName) {
  start_platform(kLocal);
  Client worker = as_container(make_container());
  for (const char* method :
       {"storage.constructor", "storage.__proto__", "cache.probe", "storage.open", "storage.", "storage"}) {
    const std::string code = worker.outcome(method, "{}");
    EXPECT_TRUE(code == "METHOD_NOT_FOUND" || code == "POLICY_DENIED") << method << code;
  }
  EXPECT_EQ(worker.outcome("adapters.configure", "{}"), "POLICY_DENIED");
  EXPECT_EQ(connect().outcome("adapters.configure", "{}"), "METHOD_NOT_FOUND");
}

TEST_F(PlatformAccess, AttackAPathWhereAnFdBelongsIsNeitherReadNorUnlinked) {
  start_platform(kLocal);
  const std::string bait = daemon().root() + "/bait";
  std::ofstream(bait) << "host file";
  Client worker = as_container(make_container());
  for (const char* form : {R"({"path":"%"})", R"({"$file":"%"})", R"({"fd":3})", R"(["%"])"}) {
    std::string value = form;
    if (const auto at = value.find('%'); at != std::string::npos) value.replace(at, 1, bait);
    EXPECT_EQ(worker.outcome("storage.write", R"({"key":"a","value":)" + value + "}"), "INVALID_PARAMS") << form;
  }
  std::ifstream file(bait);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "host file");
}

TEST_F(PlatformAccess, AttackKeysThatLookLikePathsStayInTheirBucket) {
  start_platform(kLocal);
  Client worker = as_container(make_container());
  for (const char* key : {"../../../escape", "/etc/passwd", "a/../../b", ".", ".."}) {
    const std::string params = R"({"key":")" + std::string(key) + R"(","value":"x"})";
    EXPECT_EQ(worker.outcome("storage.write", params), "OK") << key;
  }
  EXPECT_EQ(worker.outcome("storage.write", R"({"bucket":"../../up","key":"k","value":"x"})"), "OK");
  std::set<std::string> buckets;
  const std::string root = daemon().root() + "/state/platform/storage";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.is_directory()) buckets.insert(entry.path().lexically_relative(root).string());
  }
  EXPECT_EQ(buckets,
            (std::set<std::string>{"profile.plugin", "profile.plugin/default", "profile.plugin/%2E.%2F..%2Fup"}));
}

TEST_F(PlatformAccess, AttackALinkInTheStoreIsNotFollowed) {
  start_platform(kLocal);
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("storage.write", R"({"key":"a","value":"x"})"), "OK");
  const std::string bucket = daemon().root() + "/state/platform/storage/profile.plugin/default";
  std::filesystem::create_symlink("/etc/passwd", bucket + "/link");
  std::filesystem::create_directory_symlink("/etc", daemon().root() + "/state/platform/storage/profile.plugin/linked");
  EXPECT_EQ(worker.outcome("storage.read", R"({"key":"link"})"), "IO_ERROR");
  EXPECT_EQ(worker.outcome("storage.read", R"({"bucket":"linked","key":"passwd"})"), "IO_ERROR");
}

TEST_F(PlatformAccess, HoleNoSocketIsOpenToOthersOrOfTheAdapters) {
  start_platform(kLocal);
  ASSERT_EQ(as_container(make_container()).outcome("cache.get", R"({"key":"a"})"), "OK");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(daemon().runtime_dir())) {
    struct stat info{};
    ASSERT_EQ(::lstat(entry.path().c_str(), &info), 0);
    if (S_ISSOCK(info.st_mode)) {
      EXPECT_EQ(info.st_mode & 077U, 0U) << entry.path();
    }
    EXPECT_EQ(entry.path().string().find("adapters"), std::string::npos) << "a socket pair has no name";
  }
}

TEST_F(PlatformAccess, HoleAnotherVersionOrConfigurationIsAnErrorNotAWarning) {
  start_platform(kLocal);
  Client worker = as_container(make_container());
  EXPECT_EQ(worker.outcome("platform.init", R"({"protocol":2})"), "CONFLICT");
  EXPECT_EQ(worker.outcome("platform.init", R"({"protocol":1,"config_hash":"of something else"})"), "CONFLICT");
  EXPECT_EQ(worker.outcome("platform.init", "{}"), "INVALID_PARAMS");
}

TEST_F(PlatformAccess, AReloadIsNoticedByWorkersThatAskAgain) {
  start_platform(kLocal);
  const auto platform = platform_of(make_container());
  ASSERT_TRUE(platform->refresh());
  daemon().write_config("[platform.adapters]\ncache = \"memory\"\n");
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  const Status again = platform->refresh();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::conflict);
}

TEST_F(PlatformAccess, HoleAMissingAdapterSaysSoInEveryAnswer) {
  start_platform("[platform.adapters]\ncache = \"memory\"\n");
  const std::string id = make_container();
  const auto platform = platform_of(id);
  EXPECT_EQ(platform->adapter(platform::Role::storage).state, "noop");
  EXPECT_NE(platform->adapter(platform::Role::storage).reason.find("no adapter is configured"), std::string::npos);
  Client worker = as_container(id);
  const std::pair<const char*, const char*> calls[] = {
      {"storage.read", R"({"key":"a"})"},
      {"storage.write", R"({"key":"a","value":"x"})"},
      {"storage.delete", R"({"key":"a"})"},
      {"storage.list", "{}"},
      {"storage.stat", R"({"key":"a"})"},
      {"vector.count", "{}"},
      {"vector.delete", R"({"ids":["a"]})"},
      {"vector.get", R"({"ids":["a"]})"},
      {"llm.complete", R"({"messages":[{"role":"user","content":"x"}]})"},
      {"llm.stream", R"({"messages":[{"role":"user","content":"x"}]})"},
      {"embeddings.embed", R"({"text":"x"})"},
      {"embeddings.embed_batch", R"({"texts":["x"]})"},
      {"embeddings.dimensions", "{}"},
      {"events.publish", R"({"topic":"t","payload":1})"},
      {"events.subscribe", R"({"topics":["t"]})"},
  };
  for (const auto& [method, params] : calls) EXPECT_EQ(member(worker, method, params, "noop"), "true") << method;
}

TEST_F(PlatformAccess, AttackAPatternOfTopicsIsNoTopicThatIsGranted) {
  start_platform(kLocal, "permissions.adapters.events = { namespaces = [\"jobs.x\", \"mine.*\"] }\n");
  Client worker = as_container(make_container());
  const auto subscribe = [&](const std::string& topic) {
    return worker.outcome("events.subscribe", R"({"topics":[")" + topic + "\"]}");
  };
  for (const char* topic : {"jobs.*", "*", "mine", "jobs.xx"}) EXPECT_EQ(subscribe(topic), "POLICY_DENIED") << topic;
  for (const char* topic : {"jobs.x", "mine.*", "mine.a.*", "mine.a"}) EXPECT_EQ(subscribe(topic), "OK") << topic;
}

TEST_F(PlatformAccess, TheWardenLoadsNoneOfTheAdaptersLibraries) {
  start_platform(kLocal);
  ASSERT_EQ(connect().outcome("cache.get", R"({"key":"a"})"), "OK");
  const auto maps = [](pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string own = maps(daemon().pid());
  ASSERT_FALSE(own.empty());
  EXPECT_EQ(own.find("libcurl"), std::string::npos);
  EXPECT_EQ(own.find("libhiredis"), std::string::npos);
}

TEST_F(PlatformAccess, LogLinesAreEscapedAndNamed) {
  start_platform(kLocal);
  Client worker = as_container(make_container());
  EXPECT_EQ(worker.outcome("log.write", R"({"level":"warn","message":"one\ntwo\u001b[31m","fields":{"n":1}})"), "OK");
  EXPECT_TRUE(daemon().logs("worker says"));
  EXPECT_EQ(daemon().log().find('\x1b'), std::string::npos);
  EXPECT_EQ(worker.outcome("log.write", R"({"level":"shout","message":"x"})"), "INVALID_PARAMS");
  const std::string large = std::string(20'000, 'y');
  EXPECT_EQ(worker.outcome("log.write", R"({"message":"x","fields":{"n":")" + large + "\"}}"), "PAYLOAD_TOO_LARGE");
  EXPECT_EQ(daemon().log().find("yyyy"), std::string::npos);
}

TEST_F(PlatformAccess, AConfigurationWithASecretStopsTheStartAndTheReload) {
  start_platform(kLocal);
  daemon().write_config("[platform.adapter_options.redis]\nurl = \"redis://:hunter2@h:1\"\n");
  Client client = connect();
  const auto answer = client.call("warden.reload");
  ASSERT_TRUE(answer && answer->error);
  EXPECT_NE(answer->error->message.find("sallyport.toml:2:"), std::string::npos) << answer->error->message;
  EXPECT_EQ(daemon().log().find("hunter2"), std::string::npos);
  EXPECT_EQ(client.outcome("cache.get", R"({"key":"a"})"), "OK") << "the old configuration stays in force";
}

TEST_F(PlatformAccess, NamesAndHostsThatWouldMatchNothingAreRefused) {
  start_platform(kLocal);
  Client client = connect();
  for (const char* fault : {"permissions.adapters.cache = { namespaces = [\"a*\"] }\n",
                            "allowed_hosts = [\"https://a.example/\"]\n", "allowed_hosts = [\"a.*\"]\n"}) {
    write_profile("faulty", fault);
    const auto answer = client.call("warden.reload");
    ASSERT_TRUE(answer && answer->error) << fault;
    EXPECT_NE(answer->error->message.find("faulty.toml"), std::string::npos) << answer->error->message;
  }
  write_profile("faulty", "allowed_hosts = [\"*.a.example\", \"::1\"]\n");
  EXPECT_EQ(client.outcome("warden.reload"), "OK");
}

TEST_F(PlatformAccess, ThePlatformMayBeWrittenAsJson) {
  daemon_ = std::make_unique<Daemon>();
  std::ofstream(daemon().root() + "/platform.json") << R"({"adapters":{"cache":"memory"}})";
  write_profile("plugin", kAllGrants);
  ASSERT_TRUE(daemon().start()) << daemon().log();
  Client client = connect();
  EXPECT_EQ(member(client, "cache.set", R"({"key":"a","value":"x"})", "set"), "true");
}

}  // namespace
}  // namespace sallyport::testing

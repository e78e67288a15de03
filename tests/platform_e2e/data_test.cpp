// What the adapters do with data, through the typed client: storage, cache, vectors, events.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "platform_e2e/fixture.h"

namespace sallyport::testing {
namespace {

using platform::Role;

class PlatformData : public PlatformDoor {};

std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
  return bytes;
}

TEST_F(PlatformData, StorageKeepsTextBytesAndLargeValuesAcrossARestart) {
  start_platform("[platform.adapters]\nstorage = \"files\"\n");
  const std::string large = pattern(5'000'000);
  {
    const auto platform = platform_of(make_container());
    auto storage = platform->storage("b");
    ASSERT_TRUE(storage.write("text", "hello"));
    ASSERT_TRUE(storage.write("bytes", std::string("\0\xff", 2)));
    ASSERT_TRUE(storage.write("large", large));
    EXPECT_EQ(*storage.read("missing"), std::nullopt);
  }
  daemon().kill_now();
  ASSERT_TRUE(daemon().start());
  const auto platform = platform_of(make_container());
  auto storage = platform->storage("b");
  EXPECT_EQ(*storage.read("text"), "hello");
  EXPECT_EQ(*storage.read("bytes"), std::string("\0\xff", 2));
  EXPECT_TRUE(*storage.read("large") == large);
  const auto listed = storage.list();
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 3U);
  EXPECT_EQ((*listed)[1].key, "large");
  EXPECT_EQ((*listed)[1].size, 5'000'000);
  EXPECT_TRUE(*storage.remove("large"));
  EXPECT_EQ(*storage.stat("large"), std::nullopt);
}

TEST_F(PlatformData, AWriteThatBreaksOffLeavesTheOldValue) {
  start_platform("[platform.adapters]\nstorage = \"files\"\n");
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("storage.write", R"({"key":"a","value":"old"})"), "OK");
  ASSERT_TRUE(worker.send_request("w", "storage.write", R"({"key":"a","value":{"$stream":1},"size":100})"));
  ASSERT_TRUE(worker.send(chunk_frame(1, "half of")));
  worker.close();
  Client other = as_container(make_container());
  EXPECT_EQ(member(other, "storage.read", R"({"key":"a"})", "value"), "\"old\"");
  const std::string bucket = daemon().root() + "/state/platform/storage/profile.plugin/default";
  EXPECT_TRUE(eventually([&] {
    return std::distance(std::filesystem::directory_iterator(bucket), std::filesystem::directory_iterator()) == 1;
  })) << "the temporary file goes";
}

TEST_F(PlatformData, AStreamThatBringsMoreThanItSaidIsRefused) {
  start_platform("[platform.adapters]\nstorage = \"files\"\n");
  Client worker = as_container(make_container());
  ASSERT_TRUE(worker.send_request("w", "storage.write", R"({"key":"a","value":{"$stream":1},"size":3})"));
  ASSERT_TRUE(worker.send(chunk_frame(1, "four")));
  ASSERT_TRUE(worker.send(chunk_frame(1, "")));
  std::string code;
  while (code.empty()) {
    const auto message = worker.next_message();
    ASSERT_TRUE(message);
    if (message->type == wire::MessageType::response) code = code_of(message);
  }
  EXPECT_EQ(code, "PAYLOAD_TOO_LARGE");
}

// The same for every store.
class PlatformCaches : public PlatformDoor, public ::testing::WithParamInterface<const char*> {};

TEST_P(PlatformCaches, DoWhatACacheDoes) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  const std::string kind = GetParam();
  if (kind == "redis") {
    ASSERT_TRUE(redis.start());
  }
  start_platform("[platform.adapters]\ncache = \"" + kind + "\"\n[platform.adapter_options.redis]\nurl = \"" +
                 redis.url() + "\"\n");
  const auto platform = platform_of(make_container());
  ASSERT_TRUE(platform->adapter(Role::cache).is_ready()) << platform->adapter(Role::cache).reason;
  auto cache = platform->cache("a"), other = platform->cache("a:b");
  EXPECT_EQ(*cache.get("k"), std::nullopt);
  ASSERT_TRUE(cache.set("k", "v"));
  EXPECT_EQ(*cache.get("k"), "v");
  EXPECT_FALSE(*cache.set_if_absent("k", "w"));
  EXPECT_TRUE(*cache.set_if_absent("fresh", "w"));
  EXPECT_EQ(*cache.incr("n"), 1);
  EXPECT_EQ(*cache.incr("n", 41), 42);
  EXPECT_EQ(cache.incr("k").error().code, Code::conflict);
  const std::string bytes = pattern(300'000);
  ASSERT_TRUE(cache.set("bytes", bytes));
  EXPECT_TRUE(*cache.get("bytes") == bytes);
  // What would be a command of its own, if anybody counted wrong.
  const std::string command = "v\r\n*1\r\n$8\r\nFLUSHALL\r\n";
  ASSERT_TRUE(cache.set(command, command));
  EXPECT_EQ(*cache.get(command), command);
  ASSERT_TRUE(cache.set("empty", ""));
  EXPECT_EQ(*cache.get("empty"), "");
  ASSERT_TRUE(cache.set("short", "x", Millis(30)));
  EXPECT_TRUE(eventually([&] { return *cache.get("short") == std::nullopt; }));
  EXPECT_EQ(*cache.incr("counted", 1, Millis(50)), 1);
  EXPECT_TRUE(eventually([&] { return *cache.get("counted") == std::nullopt; }));
  // "a" + "b:k" and "a:b" + "k" are two places.
  ASSERT_TRUE(cache.set("b:k", "1"));
  EXPECT_EQ(*other.get("k"), std::nullopt);
  ASSERT_TRUE(other.set("kept", "1"));
  EXPECT_TRUE(*cache.remove("k"));
  EXPECT_FALSE(*cache.remove("k"));
  EXPECT_GE(*cache.clear(), 3);
  EXPECT_EQ(*cache.get("bytes"), std::nullopt);
  EXPECT_EQ(*other.get("kept"), "1");
}
INSTANTIATE_TEST_SUITE_P(Stores, PlatformCaches, ::testing::Values("memory", "sqlite", "redis"));

TEST_F(PlatformData, VectorsAreFoundByLikenessAndFilter) {
  start_platform("[platform.adapters]\nvector = \"sqlite\"\nembeddings = \"hashing\"\n");
  const auto platform = platform_of(make_container());
  const auto embedded =
      platform->embed({"the cat sat on the mat", "a dog ran in the park", "revenue grew by ten percent"});
  ASSERT_TRUE(embedded);
  EXPECT_FALSE(embedded->is_model);
  ASSERT_EQ(embedded->dimensions, 256U);
  auto docs = platform->vectors("docs");
  ASSERT_TRUE(docs.upsert({"cat", "dog", "money"}, embedded->vectors, 256,
                          R"([{"kind":"pet","year":1},{"kind":"pet","year":2},{"kind":"work","year":3}])"));
  const auto query = platform->embed({"where did the cat sit"});
  auto found = docs.search(query->vectors, 2);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ((*found)[0].id, "cat");
  found = docs.search(query->vectors, 3, R"({"kind":{"eq":"work"}})");
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ((*found)[0].id, "money");
  EXPECT_EQ(*docs.count(R"({"year":{"gt":1}})"), 2);
  EXPECT_EQ(*docs.remove({"cat", "nobody"}), 1);
  EXPECT_EQ(*docs.count(), 2);
  const std::vector<float> wrong(8, 1.0F);
  EXPECT_EQ(docs.upsert({"x"}, wrong, 8).error().code, Code::conflict);
  const std::vector<float> bad(256, std::numeric_limits<float>::infinity());
  EXPECT_EQ(docs.upsert({"x"}, bad, 256).error().code, Code::invalid_params);
  EXPECT_EQ(docs.search(query->vectors, 2, R"({"kind":{"regex":"x"}})").error().code, Code::invalid_params);
}

// The adapters could not tell it to the warden, which gave them up, and with them all that other tenants were at.
TEST_F(PlatformData, AttackMetadataThatCouldNotBeToldAgain) {
  start_platform("[platform.adapters]\nvector = \"sqlite\"\n");
  const auto platform = platform_of(make_container());
  auto vectors = platform->vectors();
  const std::vector<float> one = {1, 2};
  const auto nested = [](std::size_t depth) {
    std::string text = "[";
    for (std::size_t i = 0; i < depth; ++i) text += R"({"a":)";
    return text + "1" + std::string(depth, '}') + "]";
  };
  EXPECT_EQ(vectors.upsert({"x"}, one, 2, nested(29)).error().code, Code::invalid_params);
  ASSERT_TRUE(vectors.upsert({"x"}, one, 2, nested(24)));
  EXPECT_EQ(vectors.search(one)->size(), 1U);
  EXPECT_EQ(vectors.get({"x"})->size(), 1U);
}

TEST_F(PlatformData, VectorsAreGivenBackAsTheyWere) {
  start_platform("[platform.adapters]\nvector = \"sqlite\"\n");
  const auto platform = platform_of(make_container());
  const std::vector<float> two = {1, 2, 3, 4, 5, 6, 7, 8, 0.5F, 0, 0, 0, 0, 0, 0, 9};
  ASSERT_TRUE(platform->vectors().upsert({"a", "b"}, two, 8, R"([{"n":1},{"n":2}])"));
  const auto got = platform->vectors().get({"b", "none", "a"});
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->size(), 2U);
  EXPECT_FALSE(got->is_noop);
  EXPECT_EQ((*got)[0].id + (*got)[0].metadata_json, R"(b{"n":2})");
  EXPECT_EQ((*got)[1].vector, std::vector<float>(two.begin(), two.begin() + 8));
}

TEST_F(PlatformData, EveryTypedAnswerSaysWhenNobodyIsThere) {
  start_platform("");
  const auto platform = platform_of(make_container());
  auto storage = platform->storage();
  auto cache = platform->cache();
  auto vectors = platform->vectors();
  const std::vector<float> one(8, 1.0F);
  EXPECT_TRUE(storage.read("k")->is_noop && storage.stat("k")->is_noop && storage.list()->is_noop);
  EXPECT_TRUE(storage.write("k", "v")->is_noop && storage.remove("k")->is_noop);
  EXPECT_TRUE(cache.get("k")->is_noop && cache.set("k", "v")->is_noop && cache.set_if_absent("k", "v")->is_noop);
  EXPECT_TRUE(cache.remove("k")->is_noop && cache.clear()->is_noop && cache.incr("k")->is_noop);
  EXPECT_TRUE(vectors.upsert({"a"}, one, 8)->is_noop && vectors.search(one)->is_noop && vectors.get({"a"})->is_noop);
  EXPECT_TRUE(vectors.count()->is_noop && vectors.remove({"a"})->is_noop);
  EXPECT_TRUE(platform->publish("t", "1")->is_noop && platform->complete("x")->is_noop);
  EXPECT_NE(cache.get("k")->reason, "");
}

TEST_F(PlatformData, WhatWasAcknowledgedSurvivesTheAdaptersAndTheWarden) {
  start_platform("[platform.adapters]\nvector = \"sqlite\"\ncache = \"sqlite\"\n");
  auto platform = platform_of(make_container());
  const std::vector<float> vector = {1, 2, 3};
  const auto put = [&](const std::string& name) {
    EXPECT_TRUE(platform->vectors("docs").upsert({name}, vector, 3));
    EXPECT_TRUE(platform->cache("a").set(name, "kept"));
  };
  const auto has = [&](std::int64_t vectors, const std::string& name) {
    const auto count = platform->vectors("docs").count();
    const auto value = platform->cache("a").get(name);
    return count && *count == vectors && value && *value == "kept";
  };
  put("first");
  const pid_t adapters = adapters_pid();
  ASSERT_GT(adapters, 0);
  ASSERT_EQ(::kill(adapters, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return has(1, "first"); }));
  put("second");
  daemon().stop();
  ASSERT_TRUE(daemon().start());
  platform = platform_of(make_container());
  EXPECT_TRUE(has(2, "second"));
}

// A log that is never folded into its database grows without end.
TEST_F(PlatformData, WritingTheSameAgainDoesNotFillTheDisk) {
  start_platform("[platform.adapters]\ncache = \"sqlite\"\n");
  const auto platform = platform_of(make_container());
  auto cache = platform->cache("a");
  const std::string value(50'000, 'x');
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(cache.set("k", value));
  const auto size = [&](const std::string& name) {
    std::uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(daemon().root())) {
      if (entry.path().filename() == name) bytes = entry.file_size();
    }
    return bytes;
  };
  EXPECT_GT(size("cache.sqlite-wal"), 0U);
  EXPECT_LT(size("cache.sqlite-wal"), 10U << 20);
}

TEST_F(PlatformData, WritesThatAFullDiskRefusedDoNotPushOutWhatACacheKeeps) {
  const TemporaryDirectory disk;
  start_platform("[platform.adapters]\ncache = \"sqlite\"\n[platform.adapter_options.sqlite]\ndirectory = \"" +
                     disk.path() + "/small\"\n",
                 kAllGrants, [&] {
                   const std::string small = disk.path() + "/small";
                   if (::unshare(CLONE_NEWNS) != 0 ||
                       ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                       ::mkdir(small.c_str(), 0700) != 0 ||
                       ::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=4m,mode=0700") != 0) {
                     ::_exit(126);
                   }
                 });
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("cache.set", R"({"key":"kept","value":"x"})"), "OK") << daemon().log();
  const std::string filler = "/proc/" + std::to_string(daemon().pid()) + "/root" + disk.path() + "/small/filler";
  {
    std::ofstream file(filler, std::ios::binary);
    const std::string block(65'536, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) continue;
  }
  // In all, nearly what the cache holds; what comes then would be too much, if any of it had been stored.
  const std::string large = R"({"key":"large","value":")" + std::string(1'000'000, 'x') + "\"}";
  for (int i = 0; i < 268; ++i) ASSERT_EQ(worker.outcome("cache.set", large), "UNAVAILABLE") << i;
  std::filesystem::remove(filler);
  const std::string other = R"({"key":"other","value":")" + std::string(500'000, 'y') + "\"}";
  ASSERT_EQ(worker.outcome("cache.set", other), "OK");
  EXPECT_EQ(member(worker, "cache.get", R"({"key":"kept"})", "value"), "\"x\"");
}

TEST_F(PlatformData, OtherTenantsVectorsAreNotFound) {
  start_platform("[platform.adapters]\nvector = \"sqlite\"\n");
  write_profile("other", "permissions.adapters.vector = { namespaces = [\"*\"] }\n");
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  const std::vector<float> one(16, 0.5F);
  ASSERT_TRUE(platform_of(make_container())->vectors().upsert({"a"}, one, 16));
  const auto other = platform_of(make_container("other"));
  EXPECT_EQ(*other->vectors().count(), 0);
  EXPECT_TRUE(other->vectors().search(one)->empty());
}

class PlatformEvents : public PlatformDoor, public ::testing::WithParamInterface<const char*> {};

TEST_P(PlatformEvents, ReachWhoListensWithinTheTenantAndNobodyElse) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  const std::string kind = GetParam();
  if (kind == "redis") {
    ASSERT_TRUE(redis.start());
  }
  start_platform("[platform.adapters]\nevents = \"" + kind + "\"\n[platform.adapter_options.redis]\nurl = \"" +
                     redis.url() + "\"\n",
                 "permissions.adapters.events = { namespaces = [\"jobs.*\"] }\n");
  write_profile("other", "permissions.adapters.events = { namespaces = [\"*\"] }\n");
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  const auto listener = platform_of(make_container()), stranger = platform_of(make_container("other")),
             speaker = platform_of(make_container());
  std::vector<std::string> heard, overheard;
  const auto subscribed = listener->subscribe({"jobs.*"}, [&](std::string_view topic, wire::Value payload) {
    heard.push_back(std::string(topic) + payload.to_json());
  });
  ASSERT_TRUE(subscribed) << subscribed.error().message;
  ASSERT_TRUE(stranger->subscribe({"*"}, [&](std::string_view topic, wire::Value) { overheard.emplace_back(topic); }));
  EXPECT_EQ(listener->subscribe({"*"}, [](std::string_view, wire::Value) {}).error().code, Code::policy_denied);
  EXPECT_EQ(speaker->publish("else", "1").error().code, Code::policy_denied);
  // Who listens would take it for a stream that follows.
  for (const char* payload : {R"({"$stream":N})", R"({"deep":[{"$stream":N}]})"}) {
    const auto stream = speaker->client().open_stream();
    ASSERT_TRUE(stream);
    std::string named = payload;
    named.replace(named.find('N'), 1, std::to_string(*stream));
    const auto refused = speaker->publish("jobs.done", named);
    ASSERT_FALSE(refused) << named;
    EXPECT_EQ(refused.error().code, Code::invalid_params) << refused.error().describe();
  }
  ASSERT_TRUE(speaker->publish("jobs.done", R"({"n":1})"));
  EXPECT_TRUE(eventually([&] {
    [[maybe_unused]] const Status waited = listener->dispatch(Millis(10));
    return !heard.empty();
  }));
  EXPECT_EQ(heard, std::vector<std::string>{R"(jobs.done{"n":1})"});
  ASSERT_TRUE(stranger->client().call("test.ping"));
  EXPECT_TRUE(overheard.empty());
}
INSTANTIATE_TEST_SUITE_P(Kinds, PlatformEvents, ::testing::Values("memory", "redis"));

TEST_F(PlatformData, WhatRunsInTheWorkerNeedsNoDoor) {
  start_platform(
      "[platform.adapters]\ncache = \"memory\"\nllm = \"echo\"\nembeddings = \"hashing\"\n"
      "[platform.placement]\ncache = \"worker\"\nllm = \"worker\"\nembeddings = \"worker\"\n");
  const std::string id = make_container();
  const auto platform = platform_of(id);
  EXPECT_TRUE(platform->adapter(Role::cache).is_in_worker);
  daemon().signal(SIGSTOP);
  ASSERT_TRUE(platform->cache().set("k", "v"));
  EXPECT_EQ(*platform->cache().get("k"), "v");
  EXPECT_EQ(*platform->cache().incr("n"), 1);
  EXPECT_EQ(platform->cache().incr("k").error().code, Code::conflict) << "as on the host";
  EXPECT_EQ(platform->cache().incr("n", INT64_MAX).error().code, Code::conflict);
  EXPECT_EQ(platform->complete("one two")->text, "one two");
  const auto cut = platform->complete("one two three", {.max_tokens = 2});
  EXPECT_EQ(cut->text + "/" + cut->finish_reason, "one two/length");
  EXPECT_EQ(platform->embed({"x"})->vectors.size(), 256U);
  daemon().signal(SIGCONT);
  Client worker = as_container(id);
  EXPECT_EQ(worker.outcome("cache.get", R"({"key":"k"})"), "INVALID_REQUEST");
}

class PlatformExample : public PlatformDoor {
 protected:
  // What a sanitizer maps in the plugin for itself is far beyond what a container gets.
  void make_room_for_a_sanitizer(const std::string& profile) {
    if (!kIsSanitized) return;
    std::ofstream(daemon().root() + "/profiles/" + profile + ".toml", std::ios::app)
        << "[profile." << profile << ".limits]\nmemory = \"65536GiB\"\n";
  }
  void start_example(const std::string& more = "") {
    daemon_ = std::make_unique<Daemon>();
    const std::string example = std::string(SALLYPORT_EXAMPLES) + "/plugin-with-memory";
    std::filesystem::create_directories(daemon().root() + "/profiles");
    std::filesystem::copy(example + "/plugin.toml", daemon().root() + "/profiles/plugin.toml");
    make_room_for_a_sanitizer("plugin");
    std::ifstream config(example + "/sallyport.toml");
    daemon().write_config(std::string(std::istreambuf_iterator<char>(config), {}) + more);
    ASSERT_TRUE(daemon().start()) << daemon().log();
    std::filesystem::create_directories(workspace());
    std::filesystem::copy(SALLYPORT_PLUGIN, workspace() + "/plugin");
  }
  std::string workspace() { return daemon().root() + "/workspace"; }
  // A container for each invocation, gone before the next.
  std::string invoke(const std::string& word) {
    const std::string id =
        make_container("plugin", R"({"workspace":")" + workspace() + R"(","command":["./plugin",")" + word + "\"]}");
    Client client = connect();
    std::string out;
    EXPECT_TRUE(eventually([&] {
      const auto answer = client.call("container.inspect", R"({"container":")" + id + R"(","log":true})");
      const wire::Value log = answer->result.get("log");
      out = std::string(log.get("stdout").as_string().value_or("")) +
            std::string(log.get("stderr").as_string().value_or(""));
      return answer->result.get("state").as_string() == "exited";
    }));
    EXPECT_EQ(client.outcome("container.remove", R"({"container":")" + id + "\"}"), "OK");
    return out;
  }
  void remembers() {
    EXPECT_EQ(invoke("first"), "1 remembered\n");
    EXPECT_EQ(invoke("second"), "000001: first\n2 remembered\n");
    EXPECT_EQ(invoke("third"), "000001: first\n000002: second\n3 remembered\n");
  }
};

TEST_F(PlatformExample, RemembersAcrossInvocations) {
  start_example();
  remembers();
  EXPECT_FALSE(std::filesystem::exists(workspace() + "/.sallyport"));
}

TEST_F(PlatformExample, RunsFromTheCommandLineWithAProfileThatHasNoWorkspace) {
  start_platform("[platform.adapters]\nstorage = \"files\"\n");
  const std::string bin = std::filesystem::path(SALLYPORT_PLUGIN).parent_path();
  std::ofstream(daemon().root() + "/profiles/lean.toml")
      << "[profile.lean]\nfs.read = [\"/usr\", \"/etc\", \"" << bin << "\"]\nexec = [\"/usr/**\", \"" << bin
      << "/**\"]\nmethods = [\"platform.init\", \"storage.*\", \"log.write\"]\n"
         "[profile.lean.permissions.adapters]\nstorage = { buckets = [\"history\"] }\nlog = {}\n";
  make_room_for_a_sanitizer("lean");
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  const std::string command = "run --profile lean -- " SALLYPORT_PLUGIN " ";
  EXPECT_EQ(run_cli(command + "first 2>&1"), "1 remembered\nexit 0");
  EXPECT_EQ(run_cli(command + "second 2>&1"), "000001: first\n2 remembered\nexit 0");
}

TEST_F(PlatformExample, RemembersInItsOwnWorkspaceWhereStorageIsPlacedInTheWorker) {
  start_example("[platform.placement]\nstorage = \"worker\"\n");
  remembers();
  std::ifstream first(workspace() + "/.sallyport/storage/profile.plugin/history/000001");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(first), {}), "first");
  EXPECT_FALSE(std::filesystem::exists(daemon().root() + "/state/platform/storage/profile.plugin"));
}

TEST_F(PlatformData, StorageInTheWorkerKeepsToTheProfileAndNeedsNoDoor) {
  start_platform("[platform.adapters]\nstorage = \"files\"\n[platform.placement]\nstorage = \"worker\"\n",
                 "[profile.plugin.permissions.adapters]\nstorage = { buckets = [\"*\"], max_bytes = \"1KiB\" }\n");
  const std::string workspace = daemon().root() + "/workspace";
  std::filesystem::create_directories(workspace);
  const std::string id = make_container("plugin", R"({"workspace":")" + workspace + "\"}");
  const auto platform = platform_of(id);
  ASSERT_TRUE(platform->adapter(Role::storage).is_ready()) << platform->adapter(Role::storage).reason;
  EXPECT_TRUE(platform->adapter(Role::storage).is_in_worker);
  daemon().signal(SIGSTOP);
  auto bucket = platform->storage("b");
  const auto written = bucket.write("k", std::string("\xff\0 bytes", 8));
  EXPECT_TRUE(written && !written->is_noop);
  EXPECT_EQ(**bucket.read("k"), std::string("\xff\0 bytes", 8));
  EXPECT_EQ((*bucket.stat("k"))->size, 8);
  EXPECT_EQ(bucket.list()->size(), 1U);
  EXPECT_EQ(bucket.write("k", std::string(1025, 'x')).error().code, Code::payload_too_large);
  EXPECT_TRUE(*bucket.remove("k"));
  EXPECT_FALSE(*bucket.read("k"));
  daemon().signal(SIGCONT);
  EXPECT_EQ(as_container(id).outcome("storage.read", R"({"key":"k"})"), "INVALID_REQUEST");
  // The host is no worker: its own storage is where it always is.
  const auto host = platform_of();
  EXPECT_FALSE(host->adapter(Role::storage).is_in_worker);
  ASSERT_TRUE(host->storage("b").write("k", "the host's"));
  EXPECT_TRUE(std::filesystem::exists(daemon().root() + "/state/platform/storage/host/b/k"));
}

TEST_F(PlatformData, StorageInAWorkerWithoutAWorkspaceSaysThatItIsNone) {
  const std::string placed = "[platform.adapters]\nstorage = \"files\"\n[platform.placement]\nstorage = \"worker\"\n";
  start_platform(placed);
  const std::string id = make_container();
  const auto platform = platform_of(id);
  EXPECT_EQ(platform->adapter(Role::storage).state, "noop");
  const auto written = platform->storage().write("k", "v");
  ASSERT_TRUE(written);
  EXPECT_TRUE(written->is_noop);
  EXPECT_NE(written->reason.find("no workspace"), std::string::npos);
  daemon().write_config("[platform]\non_init_failure = \"error\"\n" + placed);
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  const auto again = platform_of(id);
  EXPECT_EQ(again->adapter(Role::storage).state, "failed");
  EXPECT_EQ(again->storage().write("k", "v").error().code, Code::unavailable);
}

}  // namespace
}  // namespace sallyport::testing

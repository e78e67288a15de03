// Backends that are down or slow, adapters that die, credentials that must stay where they are.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <csignal>

#include <cstdlib>
#include <iterator>

#include "os/files.h"
#include "platform_e2e/fixture.h"
#include "support/attacker.h"
#include "support/shell.h"

namespace sallyport::testing {
namespace {

using platform::Role;

class PlatformBackends : public PlatformDoor {};

// ---- Redis ----

TEST_F(PlatformBackends, DownAtTheStartIsReplacedByOneThatSaysSoAndFoundWhenItComes) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  start_platform("[platform.adapters]\ncache = \"redis\"\n[platform.adapter_options.redis]\nurl = \"" + redis.url() +
                 "\"\n");
  const std::string id = make_container();
  Client worker = as_container(id);
  EXPECT_EQ(member(worker, "cache.get", R"({"key":"a"})", "noop"), "true");
  EXPECT_TRUE(daemon().logs("adapter replaced by one that does nothing"));
  ASSERT_TRUE(redis.start());
  EXPECT_TRUE(eventually([&] { return member(worker, "cache.set", R"({"key":"a","value":"x"})", "set") == "true"; }));
  EXPECT_EQ(platform_of(id)->adapter(Role::cache).state, "ready");
}

TEST_F(PlatformBackends, DownAtTheStartIsAnErrorWhereTheHostWantsThat) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  start_platform(
      "[platform]\non_init_failure = \"error\"\n[platform.adapters]\ncache = \"redis\"\n"
      "[platform.adapter_options.redis]\nurl = \"" +
      redis.url() + "\"\n");
  Client worker = as_container(make_container());
  const auto answer = worker.call("cache.get", R"({"key":"a"})");
  ASSERT_EQ(code_of(answer), "UNAVAILABLE");
  EXPECT_TRUE(answer->error->retryable);
  EXPECT_EQ(answer->error->message.find(directory.path()), std::string::npos) << "no host path goes to a worker";
}

TEST_F(PlatformBackends, AFallbackIsTakenInTheOrderOfTheList) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  start_platform("[platform.adapters]\ncache = [\"redis\", \"memory\"]\n[platform.adapter_options.redis]\nurl = \"" +
                 redis.url() + "\"\n");
  EXPECT_EQ(platform_of(make_container())->adapter(Role::cache).implementation, "memory");
}

TEST_F(PlatformBackends, WhatAContainerOfItsOwnLeftInRedisIsForgotten) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  ASSERT_TRUE(redis.start());
  start_platform(
      "[platform.adapters]\ncache = \"redis\"\n[platform.adapter_options.redis]\nurl = \"" + redis.url() + "\"\n",
      std::string("tenant = \"container\"\n") + kAllGrants);
  const std::string gone = make_container(), other = make_container();
  for (const std::string& id : {gone, other}) {
    ASSERT_EQ(as_container(id).outcome("cache.set", R"({"namespace":"n*","key":"a","value":"x"})"), "OK");
  }
  const std::string named = R"({"container":")" + gone + "\"";
  ASSERT_EQ(connect().outcome("container.stop", named + R"(,"grace_ms":0})"), "OK");
  ASSERT_EQ(connect().outcome("container.remove", named + "}"), "OK");
  ASSERT_EQ(connect().outcome("platform.forget", R"({"tenant":"container.)" + gone + "\"}"), "OK");
  const std::string left = redis.ask("KEYS '*'");
  EXPECT_EQ(left.find(gone), std::string::npos) << left;
  EXPECT_NE(left.find(other), std::string::npos) << left;
  redis.stop();
  EXPECT_EQ(connect().outcome("platform.forget", R"({"tenant":"container.)" + gone + "\"}"), "UNAVAILABLE");
}

TEST_F(PlatformBackends, DownLaterIsUnavailableAndBackWithoutARestart) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  ASSERT_TRUE(redis.start());
  start_platform("[platform.adapters]\ncache = \"redis\"\n[platform.adapter_options.redis]\nurl = \"" + redis.url() +
                 "\"\n");
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("cache.set", R"({"key":"a","value":"x"})"), "OK");
  redis.stop();
  const auto answer = worker.call("cache.get", R"({"key":"a"})");
  ASSERT_EQ(code_of(answer), "UNAVAILABLE");
  EXPECT_TRUE(answer->error->retryable);
  ASSERT_TRUE(redis.start());
  EXPECT_TRUE(eventually([&] { return worker.outcome("cache.get", R"({"key":"a"})") == "OK"; }));
}

TEST_F(PlatformBackends, OneThatHangsIsGivenUpAndFoundAgain) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  ASSERT_TRUE(redis.start());
  start_platform("[platform.adapters]\ncache = \"redis\"\n[platform.adapter_options.redis]\nurl = \"" + redis.url() +
                 "\"\n");
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("cache.set", R"({"key":"a","value":"x"})"), "OK");
  redis.signal(SIGSTOP);
  Bytes frame;
  ASSERT_TRUE(wire::append_request(frame, {.id = "slow", .method = "cache.get", .deadline_ms = 100, .token = {}},
                                   R"({"key":"a"})"));
  ASSERT_TRUE(worker.send(text_of(frame)));
  EXPECT_EQ(code_of(worker.next_message()), "TIMEOUT");
  redis.signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return worker.outcome("cache.get", R"({"key":"a"})") == "OK"; }));
}

TEST_F(PlatformBackends, AHundredWorkersShareOnePoolOfConnections) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  ASSERT_TRUE(redis.start());
  start_platform("[platform.adapters]\ncache = \"redis\"\n[platform.adapter_options.redis]\nurl = \"" + redis.url() +
                 "\"\n");
  const std::string id = make_container();
  std::vector<Client> workers;
  for (int i = 0; i < 100; ++i) workers.push_back(as_container(id));
  for (int round = 0; round < 3; ++round) {
    for (Client& worker : workers) ASSERT_TRUE(worker.send_request("w", "cache.incr", R"({"key":"n"})"));
    for (Client& worker : workers) EXPECT_EQ(code_of(worker.next_message()), "OK");
  }
  EXPECT_EQ(member(workers[0], "cache.get", R"({"key":"n"})", "value"), "\"300\"");
  const std::string clients = redis.ask("INFO clients");
  EXPECT_NE(clients.find("connected_clients:2"), std::string::npos) << "ours, and the one that asks\n" << clients;
}

TEST_F(PlatformBackends, ACredentialOpensRedisAndAWrongOneIsToldToTheHostOnly) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path(), "open-sesame");
  ASSERT_TRUE(redis.start());
  const std::string secret = directory.path() + "/secret";
  ASSERT_TRUE(os::write_private_file(secret, "open-sesame\n"));
  start_platform("[platform.adapters]\ncache = \"redis\"\n[platform.adapter_options.redis]\nurl = \"" + redis.url() +
                 "\"\ncredential = \"redis\"\n[platform.credentials.redis]\nfrom_file = \"" + secret +
                 "\"\ninject = \"password\"\n");
  Client worker = as_container(make_container());
  EXPECT_EQ(worker.outcome("cache.set", R"({"key":"a","value":"x"})"), "OK");
  EXPECT_EQ(daemon().log().find("open-sesame"), std::string::npos);
}

// ---- the process ----

TEST_F(PlatformBackends, AdaptersThatDieAreStartedAgain) {
  start_platform("[platform.adapters]\ncache = \"memory\"\nstorage = \"files\"\n");
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("storage.write", R"({"key":"a","value":"kept"})"), "OK");
  const pid_t first = adapters_pid();
  ASSERT_GT(first, 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return member(worker, "storage.read", R"({"key":"a"})", "value") == "\"kept\""; }));
  EXPECT_NE(adapters_pid(), first);
}

TEST_F(PlatformBackends, AdaptersThatStopAnsweringAreReplaced) {
  start_platform("[platform.adapters]\nstorage = \"files\"\n");
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("storage.write", R"({"key":"a","value":"kept"})"), "OK");
  const pid_t first = adapters_pid();
  ASSERT_EQ(::kill(first, SIGSTOP), 0);
  EXPECT_TRUE(eventually(
      [&] {
        return send_with_deadline(worker, "r", "storage.read", 1000, R"({"key":"a"})") &&
               code_of(worker.next_message()) == "OK";
      },
      std::chrono::seconds(60)));
  EXPECT_NE(adapters_pid(), first);
  EXPECT_TRUE(daemon().logs("the adapters do not answer"));
}

TEST_F(PlatformBackends, ACallUnderWayWhenTheyDieMayBeTriedAgain) {
  WebServer web([](const auto& request, int connection) {
    char byte = 0;
    if (request.method == "GET") WebServer::write(connection, WebServer::json("{}"));
    while (::recv(connection, &byte, 1, 0) > 0) {
    }
  });
  start_platform(openai(web));
  Client worker = as_container(make_container());
  ASSERT_TRUE(worker.send_request("w", "llm.complete", kAsk));
  ASSERT_TRUE(eventually([&] { return web.requests().size() >= 3; })) << "two probes and the call";
  ASSERT_EQ(::kill(adapters_pid(), SIGKILL), 0);
  const auto answer = worker.next_message();
  EXPECT_EQ(code_of(answer), "UNAVAILABLE");
  EXPECT_TRUE(answer->error->retryable);
}

// ---- the canary ----

// Every byte that a process can read of itself.
std::string memory_of(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  const UniqueFd memory{::open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC)};
  std::string all, line;
  while (std::getline(maps, line)) {
    unsigned long begin = 0, end = 0;
    char mode[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode) != 3 || mode[0] != 'r') continue;
    if (line.find("[v") != std::string::npos || end - begin > (64UL << 20)) continue;
    std::string block(end - begin, '\0');
    const ssize_t count = ::pread(memory.get(), block.data(), block.size(), static_cast<off_t>(begin));
    if (count > 0) all.append(block.data(), static_cast<std::size_t>(count));
  }
  return all;
}

TEST_F(PlatformBackends, AttackACanaryCredentialIsNowhereAWorkerCanLook) {
  // Put together at run time: this very program must not contain it.
  const std::string canary = std::string("canary-") + std::to_string(::getpid()) + "-" + std::string("d41d8cd9");
  WebServer web([](const WebServer::Request& request, int connection) {
    // A rude backend that repeats what it was sent.
    const auto found = request.headers.find("authorization");
    const std::string key = found == request.headers.end() ? "none" : found->second;
    WebServer::write(connection, request.method == "GET" ? WebServer::json("{}")
                                                         : WebServer::json("bad key: " + key, "400 Bad Request"));
  });
  start_platform(openai(web,
                        "credential = \"llm\"\n[platform.credentials.llm]\nfrom_env = \"CANARY_KEY\"\n"
                        "hosts = [\"127.0.0.1\"]\n"),
                 kAllGrants, [canary] { ::setenv("CANARY_KEY", canary.c_str(), 1); });
  std::filesystem::create_directories(daemon().root() + "/workspace");
  std::ofstream(daemon().root() + "/workspace/spy.py") << R"(
import json, os, socket, struct, time
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["SALLYPORT_DOOR"])
frames = b""
for method, params in [("platform.init", {"protocol": 1}), ("platform.status", {}),
                       ("llm.complete", {"messages": [{"role": "user", "content": "hi"}]}),
                       ("embeddings.embed", {"text": "hi"}), ("llm.stream", {"messages": [{"role": "user", "content": "x"}]})]:
  b = json.dumps({"id": "1", "type": "request", "method": method, "params": params}).encode()
  s.sendall(struct.pack(">I", len(b)) + b)
  n = struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))[0]
  frames += s.recv(n, socket.MSG_WAITALL) + b"\n"
seen = str(dict(os.environ))
for root, _, names in os.walk("/proc"):
  if root.count("/") > 3: continue
  for name in names:
    if name in ("environ", "cmdline", "status", "mountinfo"):
      try: seen += open(os.path.join(root, name), errors="replace").read()
      except OSError: pass
open("frames", "wb").write(frames)
open("seen", "w").write(seen)
open("done", "w").write("1")
time.sleep(1000)
)";
  const std::string workspace = daemon().root() + "/workspace";
  const std::string id =
      make_container("plugin", R"({"workspace":")" + workspace + R"(","command":["python3","spy.py"]})");
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(workspace + "/done"); })) << daemon().log();
  const auto text = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string frames = text(workspace + "/frames");
  EXPECT_NE(frames.find("INVALID_PARAMS"), std::string::npos) << "the backend was asked and refused\n" << frames;
  EXPECT_EQ(frames.find(canary), std::string::npos);
  EXPECT_EQ(text(workspace + "/seen").find(canary), std::string::npos);
  EXPECT_EQ(daemon().log().find(canary), std::string::npos);
  // The backend did get it: the search could have found something.
  bool was_sent = false;
  for (const auto& request : web.requests()) {
    const auto found = request.headers.find("authorization");
    was_sent = was_sent || (found != request.headers.end() && found->second == "Bearer " + canary);
  }
  EXPECT_TRUE(was_sent);
  // The memory of every process of the container, and, to see that the search works, of the warden, which was
  // given the variable.
  Client client = connect();
  const auto inspected = client.call("container.inspect", R"({"container":")" + id + "\"}");
  const auto init = static_cast<pid_t>(inspected->result.get("pid").as_int().value_or(0));
  ASSERT_GT(init, 0);
  std::vector<pid_t> processes = {init};
  for (std::size_t i = 0; i < processes.size(); ++i) {
    std::ifstream children("/proc/" + std::to_string(processes[i]) + "/task/" + std::to_string(processes[i]) +
                           "/children");
    for (pid_t child = 0; children >> child;) processes.push_back(child);
  }
  EXPECT_GE(processes.size(), 2U);
  for (const pid_t pid : processes) {
    const std::string memory = memory_of(pid);
    EXPECT_EQ(memory.find(canary), std::string::npos) << pid;
    EXPECT_EQ(text("/proc/" + std::to_string(pid) + "/environ").find(canary), std::string::npos) << pid;
  }
  EXPECT_NE(text("/proc/" + std::to_string(daemon().pid()) + "/environ").find(canary), std::string::npos);
  // Nothing on the disk either: ledger, audit files, records.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(daemon().root() + "/state")) {
    if (entry.is_regular_file()) {
      EXPECT_EQ(text(entry.path()).find(canary), std::string::npos) << entry.path();
    }
  }
  EXPECT_EQ(client.outcome("container.stop", R"({"container":")" + id + R"(","grace_ms":0})"), "OK");
}

TEST_F(PlatformBackends, TheAdaptersGetNothingOfTheHostsEnvironmentButWhatIsNamed) {
  WebServer web([](const auto&, int connection) { WebServer::write(connection, WebServer::json("{}")); });
  start_platform(openai(web,
                        "credential = \"llm\"\n[platform.credentials.llm]\nfrom_env = \"NAMED_KEY\"\n"
                        "hosts = [\"127.0.0.1\"]\n"),
                 kAllGrants, [] {
                   ::setenv("NAMED_KEY", "v", 1);
                   ::setenv("OTHER_SECRET", "w", 1);
                 });
  const pid_t pid = adapters_pid();
  ASSERT_GT(pid, 0);
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
  const std::string environment(std::istreambuf_iterator<char>(file), {});
  if (::geteuid() == 0) {
    EXPECT_EQ(environment, std::string("NAMED_KEY=v\0", 12));
  }
}

TEST_F(PlatformBackends, AttackTheAdaptersAreClosedToTheirOwnUserAndDumpNoCore) {
  // In a child that is nobody, with a warden of its own; the number says which step failed. What may not be looked
  // into by its own user leaves no core either: both follow from one flag.
  EXPECT_EQ(in_child([] {
              if (is_root()) become_ordinary();
              Daemon own(DaemonOptions{.config = "[platform.adapters]\ncache = \"memory\"\n[platform.credentials.k]\n"
                                                 "from_env = \"CANARY_KEY\"\n",
                                       .before_exec = [] { ::setenv("CANARY_KEY", "canary", 1); }});
              if (!own.start()) return 1;
              Client client = Client::unix_socket(own.socket_path());
              const auto status = client.call("platform.status");
              if (code_of(status) != "OK") return 2;
              const std::string pid = std::to_string(status->result.get("pid").as_int().value_or(0));
              for (const char* file : {"environ", "mem", "maps"}) {
                const UniqueFd opened{::open(("/proc/" + pid + "/" + file).c_str(), O_RDONLY | O_CLOEXEC)};
                char byte = 0;
                if (opened && ::read(opened.get(), &byte, 1) > 0) return 3;
              }
              return own.stop() == 0 ? 0 : 4;
            }),
            0);
}

// ---- the command line ----

TEST_F(PlatformBackends, TheCommandLineChecksAndShows) {
  start_platform("[platform.adapters]\ncache = \"memory\"\nllm = \"echo\"\n",
                 std::string("quotas = { storage_bytes = 10 }\n") + kAllGrants);
  make_container();
  const auto run = [&](const std::string& words) { return run_cli("platform " + words + " 2>&1"); };
  const std::string shown = run("status");
  EXPECT_NE(shown.find("cache      ready   memory"), std::string::npos) << shown;
  EXPECT_NE(shown.find("storage    noop"), std::string::npos) << shown;
  EXPECT_NE(shown.find("storage_bytes        0 of 10"), std::string::npos) << shown;
  EXPECT_TRUE(run("check").ends_with("exit 0"));
  EXPECT_NE(run("status --json").find("\"config_hash\""), std::string::npos);
  daemon().write_config("[platform]\nadaptors = {}\n");
  const std::string fault = run("check");
  EXPECT_NE(fault.find("sallyport.toml:2:1: unknown key 'adaptors'"), std::string::npos) << fault;
  EXPECT_TRUE(fault.ends_with("exit 1"));
}

}  // namespace
}  // namespace sallyport::testing

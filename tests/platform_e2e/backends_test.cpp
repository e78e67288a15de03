// Backends that are down, slow, rude or broken; credentials that must stay where they are; programs of others.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>

#include "os/files.h"
#include "platform_e2e/fixture.h"
#include "support/attacker.h"
#include "wire/crypto.h"

namespace sallyport::testing {
namespace {

using platform::Role;

class PlatformBackends : public PlatformDoor {
 protected:
  static std::string openai(const WebServer& web, const std::string& more = "") {
    return "[platform.adapters]\nllm = \"openai\"\nembeddings = \"openai\"\n[platform.adapter_options.openai]\nurl = "
           "\"" +
           web.url() + "\"\nmodels = { small = \"model-1\" }\nembedding_models = { tiny = \"embed-1\" }\n" + more;
  }
  static constexpr const char* kAsk = R"({"messages":[{"role":"user","content":"hi"}]})";
};

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

// ---- HTTP ----

TEST_F(PlatformBackends, AModelAnswersAndStreams) {
  WebServer web([](const WebServer::Request& request, int connection) {
    if (request.body.find("\"stream\":true") != std::string::npos) {
      WebServer::write(connection, WebServer::stream_head() + WebServer::token("one ") + WebServer::token("two"));
      WebServer::write(connection,
                       "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                       "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n"
                       "data: [DONE]\n\n");
      return;
    }
    if (request.path == "/v1/embeddings") {
      WebServer::write(connection,
                       WebServer::json(R"({"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0.5]}],)"
                                       R"("usage":{"prompt_tokens":3}})"));
      return;
    }
    WebServer::write(connection,
                     WebServer::json(R"({"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],)"
                                     R"("usage":{"prompt_tokens":5,"completion_tokens":1}})"));
  });
  start_platform(openai(web));
  const auto platform = platform_of(make_container());
  EXPECT_EQ(platform->adapter(Role::llm).models, std::vector<std::string>{"small"});
  const auto completed = platform->complete("hi", {.model = {}, .system = "be brief", .max_tokens = 9});
  ASSERT_TRUE(completed) << completed.error().message;
  EXPECT_EQ(completed->text, "hello");
  EXPECT_EQ(completed->input_tokens, 5);
  EXPECT_TRUE(completed->is_model);
  EXPECT_NE(web.requests().back().body.find(R"("model":"model-1")"), std::string::npos);
  EXPECT_NE(web.requests().back().body.find(R"("max_tokens":9)"), std::string::npos);
  std::string streamed;
  const auto whole = platform->stream("hi", [&](std::string_view text) {
    streamed += text;
    return true;
  });
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(streamed, "one two");
  EXPECT_EQ(whole->output_tokens, 2);
  const auto vectors = platform->embed({"a", "b"});
  ASSERT_TRUE(vectors) << vectors.error().message;
  EXPECT_EQ(vectors->vectors, (std::vector<float>{1, 0.5F, 0, 1}));
}

TEST_F(PlatformBackends, TooManyRequestsSayWhenToComeBack) {
  WebServer web([](const auto& request, int connection) {
    WebServer::write(connection, request.method == "GET"
                                     ? WebServer::json("{}")
                                     : WebServer::json("{}", "429 Too Many Requests", "Retry-After: 7\r\n"));
  });
  start_platform(openai(web));
  Client worker = as_container(make_container());
  const auto answer = worker.call("llm.complete", kAsk);
  ASSERT_EQ(code_of(answer), "RATE_LIMITED");
  EXPECT_EQ(answer->error->details_json, R"({"retry_after_ms":7000})");
}

TEST_F(PlatformBackends, AStreamCutInTheMiddleIsAnErrorAfterWhatCame) {
  WebServer web([](const auto& request, int connection) {
    if (request.method == "GET") {
      WebServer::write(connection, WebServer::json("{}"));
      return;
    }
    WebServer::write(connection, WebServer::stream_head() + WebServer::token("one ") + "data: {\"choi");
  });
  start_platform(openai(web));
  const auto platform = platform_of(make_container());
  std::string streamed;
  const auto whole = platform->stream("hi", [&](std::string_view text) {
    streamed += text;
    return true;
  });
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().code, Code::io_error);
  EXPECT_TRUE(whole.error().retryable);
  EXPECT_EQ(streamed, "one ");
}

TEST_F(PlatformBackends, AnAnswerCutInTheMiddleIsAnError) {
  WebServer web([](const auto& request, int connection) {
    WebServer::write(connection, request.method == "GET"
                                     ? WebServer::json("{}")
                                     : "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"choices\"");
  });
  start_platform(openai(web));
  EXPECT_EQ(as_container(make_container()).outcome("llm.complete", kAsk), "IO_ERROR");
}

TEST_F(PlatformBackends, GarbageAndHugeAnswersAreRefused) {
  std::atomic<int> turn = 0;
  WebServer web([&](const auto& request, int connection) {
    if (request.method == "GET") {
      WebServer::write(connection, WebServer::json("{}"));
    } else if (turn == 0) {
      WebServer::write(connection, WebServer::json("<html>not what you want</html>"));
    } else if (turn == 1) {
      WebServer::write(connection, WebServer::json(R"({"choices":"none"})"));
    } else if (turn == 2) {
      const std::string block(1 << 20, 'x');
      if (!WebServer::write(connection, "HTTP/1.1 200 OK\r\n\r\n{\"choices\":\"")) return;
      for (int i = 0; i < 64 && WebServer::write(connection, block); ++i) {
      }
    } else if (turn == 3) {
      WebServer::write(connection, WebServer::json("secret of the backend", "500 Internal Server Error"));
    } else {
      WebServer::write(connection, WebServer::json("", "302 Found", "Location: http://169.254.169.254/latest\r\n"));
    }
  });
  start_platform(openai(web));
  Client worker = as_container(make_container());
  const char* expected[] = {"UNAVAILABLE", "UNAVAILABLE", "PAYLOAD_TOO_LARGE", "UNAVAILABLE", "UNAVAILABLE"};
  for (const char* code : expected) {
    const auto answer = worker.call("llm.complete", kAsk);
    EXPECT_EQ(code_of(answer), code) << turn;
    if (answer && answer->error) {
      EXPECT_EQ(answer->error->message.find("secret"), std::string::npos);
    }
    ++turn;
  }
  EXPECT_EQ(daemon().log().find("secret of the backend"), std::string::npos);
}

TEST_F(PlatformBackends, ASlowModelMissesItsDeadlineAndACancelledOneIsLetGo) {
  std::atomic<int> gone = 0;
  WebServer web([&](const auto& request, int connection) {
    if (request.method == "GET") {
      WebServer::write(connection, WebServer::json("{}"));
      return;
    }
    WebServer::write(connection, WebServer::stream_head() + WebServer::token("first"));
    char byte = 0;
    // Ends when the adapters hang up.
    while (::recv(connection, &byte, 1, 0) > 0) {
    }
    ++gone;
  });
  start_platform(openai(web));
  const std::string id = make_container();
  Client worker = as_container(id);
  Bytes frame;
  ASSERT_TRUE(
      wire::append_request(frame, {.id = "slow", .method = "llm.complete", .deadline_ms = 200, .token = {}}, kAsk));
  ASSERT_TRUE(worker.send(text_of(frame)));
  EXPECT_EQ(code_of(worker.next_message()), "TIMEOUT");
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
  const auto cancelled = platform_of(id)->stream("hi", [](std::string_view) { return false; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Code::cancelled);
  EXPECT_TRUE(eventually([&] { return gone == 2; }));
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

// ---- programs of others ----

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
    EXPECT_TRUE(code == "UNAVAILABLE" || code == "TIMEOUT") << key << code;
  }
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

// ---- the command line ----

TEST_F(PlatformBackends, TheCommandLineChecksAndShows) {
  start_platform("[platform.adapters]\ncache = \"memory\"\nllm = \"echo\"\n",
                 std::string("quotas = { storage_bytes = 10 }\n") + kAllGrants);
  make_container();
  const auto run = [&](const std::string& words) {
    const std::string command =
        "SALLYPORT_RUNTIME_DIR=" + daemon().runtime_dir() + " SALLYPORT_STATE_DIR=" + daemon().root() +
        "/state SALLYPORT_CONFIG=" + daemon().config_file() + " " SALLYPORT_CLI " platform " + words + " 2>&1";
    FILE* const pipe = ::popen(command.c_str(), "re");
    std::string said;
    char block[4096];
    while (const std::size_t count = std::fread(block, 1, sizeof block, pipe)) said.append(block, count);
    const int status = ::pclose(pipe);
    return said + "exit " + std::to_string(WEXITSTATUS(status));
  };
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

// fs.* through the door of the real daemon, done by the container's worker.
#include <gtest/gtest.h>

#include <fstream>

#include "client/client.h"
#include "e2e/containers.h"

namespace sallyport::testing {
namespace {

class ContainerFiles : public Containers {
 protected:
  void write_profile(const std::string& name, const std::string& text) {
    std::filesystem::create_directory(daemon().root() + "/profiles");
    std::ofstream(daemon().root() + "/profiles/" + name + ".toml") << "[profile." + name + "]\n" + text;
    EXPECT_EQ(connect().outcome("warden.reload"), "OK");
  }
};

// Everything in `wanted` is in `actual`; arrays have the same length.
bool covers(wire::Value actual, wire::Value wanted) {
  if (wanted.is_object()) {
    for (const auto& [name, value] : wanted.members()) {
      if (!actual.get(name).exists() || !covers(actual.get(name), value)) return false;
    }
    return actual.is_object();
  }
  if (wanted.is_array()) {
    if (!actual.is_array() || actual.size() != wanted.size()) return false;
    auto item = actual.items().begin();
    for (const wire::Value one : wanted.items()) {
      if (!covers(*item, one)) return false;
      ++item;
    }
    return true;
  }
  return actual.to_json() == wanted.to_json();
}

TEST_F(ContainerFiles, AreReadWrittenAndSearchedInsideTheWalls) {
  Client client = connect();
  const std::string where = R"("workspace":")" + workspace() + "\"";
  EXPECT_EQ(client.outcome("fs.write", "{" + where + R"(,"path":"a.txt","content":"one\ntwo\n"})"), "OK");
  const auto read = client.call("fs.read", "{" + where + R"(,"path":"a.txt"})");
  EXPECT_EQ(read->result.get("content").as_string(), "one\ntwo\n");
  EXPECT_EQ(client.outcome("fs.edit", "{" + where + R"(,"path":"a.txt","old_string":"two","new_string":"2"})"), "OK");
  const auto grep = client.call("fs.grep", "{" + where + R"(,"pattern":"^2$","root":"."})");
  EXPECT_EQ(grep->result.get("matches").size(), 1U);
  EXPECT_EQ(client.outcome("fs.read", "{" + where + R"(,"path":"a.txt","no_such":1})"), "INVALID_PARAMS");
}

TEST_F(ContainerFiles, IgnoreRulesHoldInsideTheWalls) {
  Client client = connect();
  std::filesystem::create_directories(workspace() + "/.git/info");
  std::ofstream(workspace() + "/.gitignore") << "*.o\n";
  std::ofstream(workspace() + "/.git/info/exclude") << "private\n";
  for (const char* name : {"kept.c", "made.o", "private"}) std::ofstream(workspace() + "/" + name) << "word\n";
  const std::string where = R"({"workspace":")" + workspace() + "\"";
  const auto glob = client.call("fs.glob", where + R"(,"pattern":"**"})");
  ASSERT_EQ(glob->result.get("paths").size(), 1U);
  EXPECT_EQ((*glob->result.get("paths").items().begin()).as_string(), "kept.c");
  const auto grep = client.call("fs.grep", where + R"(,"pattern":"word"})");
  EXPECT_EQ(grep->result.get("matches").size(), 1U);
}

// What is hidden looks empty: that nothing was found there is said.
TEST_F(ContainerFiles, WhatTheWallsMaskIsCountedAndNotCalledSearched) {
  std::ofstream(workspace() + "/.env") << "SECRET\n";
  std::ofstream(workspace() + "/empty") << "";
  std::ofstream(workspace() + "/full") << "SECRET\n";
  Client client = connect();
  const std::string where = R"({"workspace":")" + workspace() + "\"";
  const auto all = client.call("fs.grep", where + R"(,"pattern":"SECRET","hidden":true})");
  EXPECT_EQ(all->result.get("matches").size(), 1U);
  EXPECT_EQ(all->result.get("searched").as_int(), 2);
  EXPECT_EQ(all->result.get("skipped").get("masked").as_int(), 1) << all->result.to_json();
}

TEST_F(ContainerFiles, TheDocumentationsExamplesAreTrue) {
  const auto write = [&](const std::string& name, const char* text) {
    const std::filesystem::path path = workspace() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  write("hello.txt", "hello\nwide\nworld\n");
  write("src/main.c", "int main(void) {\n  return 0;\n}\n");
  write("src/util.h", "int twice(int x);\n");
  write("build/out.o", "");
  write(".gitignore", "build/\n");
  Client client = connect();
  wire::Decoder decoder;
  std::ifstream page(DOCS "/files.md");
  ASSERT_TRUE(page.is_open());
  std::string asked;
  int examples = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("> ")) {
      asked = line.substr(2);
      const std::size_t params = asked.find('{');
      const std::string rest = asked.substr(params + 1);
      ASSERT_TRUE(client.send_request("e", asked.substr(0, params - 1),
                                      R"({"workspace":")" + workspace() + (rest == "}" ? "\"" : "\",") + rest));
    } else if (line.starts_with("~ ") || line.starts_with("< ") || line.starts_with("! ")) {
      const auto wanted = decoder.parse(line.substr(2));
      ASSERT_TRUE(wanted) << line;
      const auto message = client.next_message();
      ASSERT_TRUE(message) << asked;
      if (line[0] == '!') {
        ASSERT_TRUE(message->error) << asked;
        const auto error = decoder.parse(wire::to_json([&](auto& json) { wire::write_error(json, *message->error); }));
        EXPECT_TRUE(covers(error->root(), wanted->root())) << asked << "\n" << error->root().to_json();
      } else {
        const wire::Value came = line[0] == '~' ? message->params : message->result;
        EXPECT_EQ(message->type == wire::MessageType::event, line[0] == '~') << asked;
        EXPECT_TRUE(covers(came, wanted->root())) << asked << "\n" << came.to_json();
      }
      examples += line[0] == '~' ? 0 : 1;
    }
  }
  EXPECT_EQ(examples, 50) << "examples were added or lost: say here how many there are";
}

TEST_F(ContainerFiles, EveryWorkspaceHasAWorkerOfItsOwn) {
  Client client = connect();
  for (const char* name : {"first", "second"}) {
    const std::string directory = daemon().root() + "/" + name;
    std::filesystem::create_directory(directory);
    const std::string where = R"({"workspace":")" + directory + R"(","path":"file")";
    EXPECT_EQ(client.outcome("fs.write", where + R"(,"content":"x"})"), "OK");
    EXPECT_TRUE(std::filesystem::exists(directory + "/file"));
  }
}

TEST_F(ContainerFiles, ADirectoryIsWhatItIsAndNotHowItIsSpelled) {
  Client client = connect();
  const std::string link = daemon().root() + "/link";
  std::filesystem::create_symlink(workspace(), link);
  const auto write = [&](const std::string& directory, const std::string& name) {
    return client.outcome("fs.write", R"({"workspace":")" + directory + R"(","path":")" + name + R"(","content":"x"})");
  };
  for (const std::string& spelled : {workspace(), workspace() + "/", workspace() + "/.", link}) {
    EXPECT_EQ(write(spelled, "a"), "OK") << spelled;
  }
  EXPECT_EQ(client.call("container.list")->result.get("containers").size(), 1U);
  // Another directory at the same path is another one.
  std::filesystem::rename(workspace(), daemon().root() + "/moved");
  EXPECT_EQ(write(workspace(), "b"), "OK");
  EXPECT_TRUE(std::filesystem::exists(workspace() + "/b"));
  EXPECT_FALSE(std::filesystem::exists(daemon().root() + "/moved/b"));
  std::filesystem::remove_all(workspace());
  EXPECT_EQ(write(workspace(), "c"), "OK");
  EXPECT_TRUE(std::filesystem::exists(workspace() + "/c"));
  EXPECT_EQ(write(daemon().root() + "/nowhere", "d"), "IO_ERROR");
}

TEST_F(ContainerFiles, ThatAreNotAskedForAnyMoreLeaveNoContainerBehind) {
  write_profile("brief", "fs.read = [\"/usr\", \"${workspace}\"]\nlimits.idle = \"1s\"\n");
  std::ofstream(workspace() + "/a") << "one\n";
  Client client = connect();
  const std::string read = R"({"workspace":")" + workspace() + R"(","profile":"brief","path":"a"})";
  const auto containers = [&] {
    std::string ids;
    const auto list = client.call("container.list");
    for (const wire::Value each : list->result.get("containers").items()) ids += each.get("container").to_json();
    return ids;
  };
  // What the host asks for keeps it, though nothing runs inside: so often that on a busy machine once is enough.
  bool was_kept = false;
  for (int attempt = 0; attempt < 5 && !was_kept; ++attempt) {
    ASSERT_EQ(client.outcome("fs.read", read), "OK");
    const std::string first = containers();
    ASSERT_NE(first, "");
    for (int i = 0; i < 30; ++i) {
      client.outcome("fs.read", read);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    was_kept = containers() == first;
  }
  EXPECT_TRUE(was_kept);
  EXPECT_TRUE(eventually([&] { return containers().empty(); }));
  // One that ends with its warden is forgotten too.
  ASSERT_EQ(client.outcome("fs.read", read), "OK");
  daemon().stop();
  ASSERT_TRUE(daemon().start());
  client = connect();
  EXPECT_TRUE(eventually([&] { return containers().empty(); })) << containers();
}

TEST_F(ContainerFiles, AWorkspaceHasAWorkerForEachProfile) {
  write_profile("shut", "fs.read = [\"/usr\", \"${workspace}\"]\n");
  Client client = connect();
  const std::string where = R"({"path":"a","content":"x","workspace":")" + workspace() + "\"";
  EXPECT_EQ(client.outcome("fs.write", where + "}"), "OK");
  const auto refused = client.call("fs.write", where + R"(,"profile":"shut"})");
  ASSERT_TRUE(refused->error);
  EXPECT_EQ(refused->error->code, Code::policy_denied);
  EXPECT_NE(refused->error->message.find("fs.write of the profile 'shut'"), std::string::npos);
  EXPECT_EQ(client.outcome("fs.write", where + R"(,"profile":"no-such"})"), "NOT_FOUND");
  EXPECT_EQ(client.outcome("fs.write", where + R"(,"container":"x"})"), "INVALID_PARAMS");
}

TEST_F(ContainerFiles, TheHostIsToldWhichRuleHidesAPath) {
  write_profile(
      "careful",
      "fs.read = [\"/usr\"]\nfs.write = [\"${workspace}\"]\nfs.deny = [\"${workspace}/secrets\", \"**/*.pem\"]\n");
  Client client = connect();
  std::filesystem::create_directories(workspace() + "/secrets");
  std::ofstream(workspace() + "/secrets/key") << "secret";
  std::ofstream(workspace() + "/id.pem") << "secret";
  const std::string where = R"({"profile":"careful","workspace":")" + workspace() + "\"";
  for (const std::string path : {"secrets/key", "./secrets", "id.pem"}) {
    const auto answer = client.call("fs.read", where + R"(,"path":")" + path + "\"}");
    ASSERT_TRUE(answer->error) << path;
    EXPECT_EQ(answer->error->code, Code::policy_denied) << path;
    EXPECT_NE(answer->error->message.find("fs.deny"), std::string::npos) << path;
  }
  EXPECT_EQ(client.outcome("fs.list", where + R"(,"path":"."})"), "OK");
}

TEST_F(ContainerFiles, AnEditThatIsOutOfTimeIsNotMadeLater) {
  Client client = connect();
  const std::string line(1 << 10, 'x');
  {
    std::ofstream file(workspace() + "/f");
    for (int i = 0; i < 60 << 10; ++i) file << line;
    file << "the end";
  }
  const auto size = std::filesystem::file_size(workspace() + "/f");
  const std::string where = R"("workspace":")" + workspace() + "\"";
  ASSERT_EQ(client.outcome("worker.ping", "{" + where + "}"), "OK");
  std::string edits;
  for (int i = 0; i < 200; ++i) {
    const bool is_odd = i % 2 != 0;
    edits += std::string(i == 0 ? "" : ",") + R"({"old_string":")" + (is_odd ? "THE END!" : "the end") +
             R"(","new_string":")" + (is_odd ? "the end" : "THE END!") + "\"}";
  }
  edits += R"(,{"old_string":"the end","new_string":"changed"})";
  ASSERT_TRUE(
      client.send(frame_of(R"({"id":"e","type":"request","method":"fs.multi_edit","deadline_ms":100,"params":{)" +
                           where + R"(,"path":"f","edits":[)" + edits + "]}}")));
  EXPECT_EQ(code_of(client.next_message()), "TIMEOUT");
  // The worker takes its requests in order: when this is answered, the edit is over.
  EXPECT_EQ(client.outcome("worker.ping", "{" + where + "}"), "OK");
  EXPECT_EQ(std::filesystem::file_size(workspace() + "/f"), size);
}

TEST_F(ContainerFiles, AttackPathsOutsideTheWallsAreNotThere) {
  Client client = connect();
  const std::string where = R"("workspace":")" + workspace() + "\"";
  for (const std::string& path : {daemon().socket_path(), daemon().config_file(), std::string("/root/.bashrc")}) {
    EXPECT_EQ(client.outcome("fs.read", "{" + where + R"(,"path":")" + path + "\"}"), "IO_ERROR") << path;
  }
  EXPECT_EQ(client.outcome("fs.write", "{" + where + R"(,"path":"/etc/x","content":""})"), "POLICY_DENIED");
}

TEST_F(ContainerFiles, AttackMagicLinksOfProcAreNotFollowed) {
  Client client = connect();
  const std::string id = create(client, "");
  ASSERT_EQ(client.outcome("env.get", R"({"container":")" + id + R"(","names":["PATH"]})"), "OK");  // its worker runs
  const auto outcome = [&](const std::string& method, const std::string& path, const std::string& more = "") {
    return client.outcome(method, R"({"container":")" + id + R"(","path":")" + path + "\"" + more + "}");
  };
  for (const char* process : {"self", "1", "2", "thread-self"}) {
    const std::string proc = std::string("/proc/") + process;
    for (const char* link : {"/root/etc/hostname", "/cwd/file", "/exe", "/fd/3", "/ns/mnt", "/root"}) {
      EXPECT_NE(outcome("fs.read", proc + link), "OK") << proc << link;
      EXPECT_NE(outcome("fs.write", proc + link, R"(,"content":"x")"), "OK") << proc << link;
      EXPECT_NE(outcome("fs.list", proc + link), "OK") << proc << link;
    }
    EXPECT_NE(outcome("fs.read", proc + "/mem"), "OK");
  }
  EXPECT_NE(outcome("fs.read", "/proc/1/environ"), "OK");
  const auto maps =
      client.call("fs.grep", R"({"container":")" + id +
                                 R"(","pattern":"r-xp","root":"/proc","include":["**/maps"],"mode":"files"})");
  ASSERT_EQ(code_of(maps), "OK");
  EXPECT_EQ(maps->result.get("files").size(), 0U);
  for (const char* own : {"maps", "auxv", "exe"}) {
    EXPECT_EQ(outcome("fs.stat", std::string("/proc/self/") + own), "POLICY_DENIED") << own;
  }
  for (const std::string& own : {std::string("self"), std::string("self/maps"), std::string("self/task")}) {
    const std::string params = R"({"container":")" + id + R"(","from":"/proc/)" + own + R"(","to":"taken")";
    EXPECT_EQ(client.outcome("fs.copy", params + R"(,"recursive":true})"), "POLICY_DENIED") << own;
    EXPECT_NE(client.outcome("fs.move", params + "}"), "OK") << own;
    EXPECT_EQ(outcome("fs.stat", "taken"), "IO_ERROR") << own;
  }
  EXPECT_EQ(outcome("fs.edit", "/proc/self/maps", R"(,"old_string":"a","new_string":"b")"), "POLICY_DENIED");
}

TEST_F(ContainerFiles, AttackOtherSpellingsOfAMaskedNameAreOtherNames) {
  std::ofstream(workspace() + "/.env") << "SECRET";
  Client client = connect();
  const std::string id = create(client, "");
  for (const char* path : {".env", "./.env", "x/../.env", ".//.env", ".ENV", ".env.", ".env ", ".e\\u0301nv", ".env/.",
                           "\\uff0eenv", ".env\\u200b"}) {
    const auto answer = client.call("fs.read", R"({"container":")" + id + R"(","path":")" + path + "\"}");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->result.get("content").as_string().value_or("").find("SECRET"), std::string_view::npos) << path;
  }
  const auto found =
      client.call("fs.grep", R"({"container":")" + id + R"(","pattern":"SECRET","hidden":true,"ignored":true})");
  EXPECT_EQ(found->result.get("matches").size(), 0U);
}

TEST_F(ContainerFiles, AContainerAsksOnlyForItself) {
  Client client = connect();
  const std::string id = create(client, "");
  ASSERT_EQ(client.outcome("session.narrow", named(id)), "OK");
  EXPECT_EQ(client.outcome("fs.write", R"({"path":"mine","content":"x"})"), "OK");
  EXPECT_EQ(client.outcome("fs.stat", R"({"path":"mine"})"), "OK");
  EXPECT_EQ(client.outcome("fs.stat", R"({"path":"mine","container":")" + id + "\"}"), "INVALID_PARAMS");
  EXPECT_EQ(client.outcome("fs.stat", R"({"path":"mine","workspace":"/tmp"})"), "INVALID_PARAMS");
}

TEST_F(ContainerFiles, ADenialNamesTheRuleToTheHostAndNothingToAContainer) {
  Client host = connect();
  const std::string id = create(host, "");
  const std::string write = R"("path":"/etc/x","content":"")";
  const auto told = host.call("fs.write", R"({"container":")" + id + "\"," + write + "}");
  ASSERT_TRUE(told && told->error);
  EXPECT_NE(told->error->message.find("fs.write of the profile 'default'"), std::string::npos) << told->error->message;
  Client inside = connect();
  ASSERT_EQ(inside.outcome("session.narrow", named(id)), "OK");
  const auto refused = inside.call("fs.write", "{" + write + "}");
  ASSERT_TRUE(refused && refused->error);
  EXPECT_EQ(refused->error->code, Code::policy_denied);
  EXPECT_EQ(refused->error->message.find("profile"), std::string::npos) << refused->error->message;
}

TEST_F(ContainerFiles, AProfileMayRefuseFilesWithMoreThanOneName) {
  write_profile("single", "fs.read = [\"/usr\"]\nfs.write = [\"${workspace}\"]\nfs.refuse_hard_links = true\n");
  std::ofstream(workspace() + "/one") << "text";
  std::filesystem::create_hard_link(workspace() + "/one", workspace() + "/two");
  Client client = connect();
  const auto read_in = [&](const std::string& profile) {
    const auto made = client.call(
        "container.create", R"({"template":")" + profile + R"(","config":{"workspace":")" + workspace() + R"("}})");
    const std::string id(made->result.get("container").as_string().value_or(""));
    return client.outcome("fs.read", R"({"path":"two","container":")" + id + "\"}");
  };
  EXPECT_EQ(read_in("default"), "OK");
  EXPECT_EQ(read_in("single"), "POLICY_DENIED");
}

TEST_F(ContainerFiles, LargeContentFlowsAsAStream) {
  Client client = connect();
  {
    std::ofstream file(workspace() + "/large");
    for (int i = 0; i < 300'000; ++i) file << "0123456789";
  }
  const std::string params = R"({"workspace":")" + workspace() + R"(","path":"large","stream":true})";
  ASSERT_TRUE(client.send_request("r", "fs.read", params));
  const auto answer = client.next_message();
  ASSERT_EQ(code_of(answer), "OK");
  const auto stream = answer->result.get("content").get("$stream").as_int().value_or(0);
  std::size_t bytes = 0;
  for (;;) {
    const auto body = client.next_body();
    ASSERT_TRUE(body);
    const auto chunk = wire::parse_chunk(as_bytes(*body));
    ASSERT_TRUE(chunk);
    if (chunk->data.empty()) break;
    bytes += chunk->data.size();
    ASSERT_TRUE(
        client.send(frame_of(R"({"type":"event","method":"stream.credit","params":{"stream":)" +
                             std::to_string(stream) + R"(,"bytes":)" + std::to_string(chunk->data.size()) + "}}")));
  }
  EXPECT_EQ(bytes, 3'000'000U);
}

TEST_F(ContainerFiles, ARefusedWriteEndsItsStreamAndTheWriterNeedNotWait) {
  const auto client = sallyport::Client::connect_unix(daemon().socket_path());
  ASSERT_TRUE(client);
  const std::string content(3'000'000, 'x');
  // More often than a connection may have streams open.
  for (int i = 0; i < 40; ++i) {
    const auto stream = (*client)->open_stream();
    ASSERT_TRUE(stream) << stream.error().describe();
    std::optional<Result<Answer>> answer;
    const std::string params = R"({"workspace":")" + workspace() + R"(","path":"/etc/x","content":{"$stream":)" +
                               std::to_string(*stream) + "}}";
    ASSERT_TRUE((*client)->start("fs.write", params, [&](Result<Answer> came) { answer = std::move(came); }));
    const Status written = (*client)->write_stream(*stream, as_bytes(content));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Code::cancelled) << written.error().describe();
    while (!answer) ASSERT_TRUE((*client)->dispatch(Millis(60'000)));
    ASSERT_EQ(answer->error().code, Code::policy_denied) << answer->error().describe();
  }
}

// A worker that waited for its caller would keep everybody else waiting.
TEST_F(ContainerFiles, ACallerThatStandsStillHoldsUpNobody) {
  for (int i = 0; i < 2000; ++i) std::ofstream(workspace() + "/" + std::to_string(i)) << std::string(4000, 'x') << "\n";
  Client writer = connect(), searcher = connect();
  const std::string where = R"({"workspace":")" + workspace() + "\"";
  ASSERT_TRUE(writer.send_request("w", "fs.write", where + R"(,"path":"f","content":{"$stream":1}})"));
  ASSERT_TRUE(searcher.send_request("s", "fs.grep", where + R"(,"pattern":"x","stream":true})"));
  Client other = connect();
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(other.outcome("fs.read", where + R"(,"path":"1"})"), "OK") << i;
  }
  // They go on where they were.
  Bytes chunks;
  for (const std::string_view piece : {"late", ""}) ASSERT_TRUE(wire::append_chunk(chunks, 1, as_bytes(piece)));
  ASSERT_TRUE(writer.send(std::string_view(reinterpret_cast<const char*>(chunks.data()), chunks.size())));
  EXPECT_EQ(code_of(writer.next_message()), "OK");
}

TEST_F(ContainerFiles, WhatHoldsSomethingProtectedIsNotRemovedInPart) {
  std::filesystem::create_directories(workspace() + "/src/deep");
  for (const char* name : {"src/a", "src/deep/b", "src/deep/.env"}) std::ofstream(workspace() + "/" + name) << "kept";
  Client client = connect();
  const std::string id = create(client, "");
  for (const char* path : {"src", "src/deep", "src/deep/.env", "..", "."}) {
    const auto answer =
        client.call("fs.remove", R"({"container":")" + id + R"(","path":")" + path + R"(","recursive":true})");
    EXPECT_EQ(code_of(answer), "POLICY_DENIED") << path;
  }
  for (const char* name : {"src/a", "src/deep/b", "src/deep/.env"}) {
    EXPECT_TRUE(std::filesystem::exists(workspace() + "/" + name)) << name;
  }
  EXPECT_EQ(client.outcome("fs.remove", R"({"container":")" + id + R"(","path":"src/deep/b"})"), "OK");
}

}  // namespace
}  // namespace sallyport::testing

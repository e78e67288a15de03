#include "worker/service.h"

#include <gtest/gtest.h>

#include <sstream>

#include "wire/wire.h"
#include "worker/sandbox_dir.h"

namespace sallyport::worker {
namespace {

using wire::Value;

// Keeps what a method sends before its answer.
class Recorder final : public StreamPort {
 public:
  Result<std::uint32_t> send_file(UniqueFd, std::uint64_t, std::uint64_t) override {
    return Error::make(Code::unimplemented, "no streams here");
  }
  Result<std::optional<std::string_view>> receive(std::uint32_t) override {
    return Error::make(Code::unimplemented, "no streams here");
  }
  Status send_progress(std::string_view params, Stop&) override {
    events.emplace_back(params);
    return ok();
  }
  std::vector<std::string> events;
};

// What a method answers: {"result":...} or {"error":{...}}.
std::string call(const Service& service, std::string_view method, std::string_view params,
                 StreamPort* streams = nullptr) {
  wire::Decoder decoder;
  const auto document = decoder.parse(params);
  if (!document) return "params: " + document.error().describe();
  Bytes body;
  wire::JsonWriter json(body);
  Stop stop;
  const auto done = service.handle(method, {document->root(), stop, json, streams});
  if (done) return "{\"result\":" + std::string(as_text(body.view())) + "}";
  return wire::to_json([&](wire::JsonWriter& out) {
    out.begin_object().key("error");
    wire::write_error(out, done.error());
    out.end_object();
  });
}

// Everything in `wanted` is in `actual`; arrays have the same length.
bool covers(Value actual, Value wanted) {
  if (wanted.is_object()) {
    for (const auto& [name, value] : wanted.members()) {
      if (!actual.get(name).exists() || !covers(actual.get(name), value)) return false;
    }
    return actual.is_object();
  }
  if (wanted.is_array()) {
    if (!actual.is_array() || actual.size() != wanted.size()) return false;
    auto item = actual.items().begin();
    for (const Value one : wanted.items()) {
      if (!covers(*item, one)) return false;
      ++item;
    }
    return true;
  }
  return actual.to_json() == wanted.to_json();
}

TEST(Service, TheDocumentationsExamplesAreTrue) {
  SandboxDir box;
  box.write("hello.txt", "hello\nwide\nworld\n");
  box.write("src/main.c", "int main(void) {\n  return 0;\n}\n");
  box.write("src/util.h", "int twice(int x);\n");
  box.write("build/out.o", "");
  box.write(".gitignore", "build/\n");
  const Service service(box.open());
  std::ifstream page(SALLYPORT_SOURCE_DIR "/docs/files.md");
  ASSERT_TRUE(page.is_open());
  std::string method;
  std::string params;
  std::vector<std::string> events;
  int examples = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("> ")) {
      const std::size_t space = line.find(' ', 2);
      method = line.substr(2, space - 2);
      params = line.substr(space + 1);
    } else if (line.starts_with("~ ")) {
      events.push_back(line.substr(2));
    } else if (line.starts_with("< ") || line.starts_with("! ")) {
      Recorder recorder;
      const std::string answer = call(service, method, params, &recorder);
      wire::Decoder decoder;
      EXPECT_EQ(recorder.events.size(), events.size()) << method << " " << params;
      for (std::size_t i = 0; i < std::min(events.size(), recorder.events.size()); ++i) {
        const auto came = decoder.parse(recorder.events[i]);
        const auto shown = decoder.parse(events[i]);
        ASSERT_TRUE(came && shown) << events[i];
        EXPECT_TRUE(covers(came->root(), shown->root())) << "wanted " << events[i] << "\n got " << recorder.events[i];
      }
      events.clear();
      const auto actual = decoder.parse(answer);
      const auto wanted = decoder.parse(line.substr(2));
      ASSERT_TRUE(actual && wanted) << line;
      EXPECT_TRUE(covers(actual->root().get(line[0] == '<' ? "result" : "error"), wanted->root()))
          << method << " " << params << "\n wanted " << line << "\n got " << answer;
      ++examples;
    }
  }
  EXPECT_GT(examples, 25);
}

TEST(Service, EveryMethodRefusesAnUnknownParameterByName) {
  SandboxDir box;
  const Service service(box.open());
  for (const Method& method : Service::methods()) {
    const std::string answer = call(service, method.name, R"({"bogus":1})");
    EXPECT_NE(answer.find("INVALID_PARAMS"), std::string::npos) << method.name;
    EXPECT_NE(answer.find(R"("field":"params.bogus")"), std::string::npos) << method.name << answer;
  }
}

TEST(Service, AnUnknownMethodIsNotFound) {
  SandboxDir box;
  EXPECT_NE(call(Service(box.open()), "fs.chmod", "{}").find("METHOD_NOT_FOUND"), std::string::npos);
  EXPECT_EQ(Service::find("fs.rea"), nullptr);
  EXPECT_NE(Service::find("fs.read"), nullptr);
}

TEST(Service, WrongTypesAndRangesAreNamed) {
  SandboxDir box;
  box.write("f", "x");
  const Service service(box.open());
  const std::pair<const char*, const char*> cases[] = {
      {"fs.read", R"({"path":1})"},
      {"fs.read", R"({"path":"f","offset":0})"},
      {"fs.read", R"({"path":"f","encoding":"latin1"})"},
      {"fs.read", R"({"path":"f","max_bytes":99999999})"},
      {"fs.read", R"({"path":"f","offset":1,"byte_offset":1})"},
      {"fs.read", R"({"path":"f","stream":true})"},
      {"fs.read", R"({"path":"a\u0000b"})"},
      {"fs.write", R"({"path":"f","content":7})"},
      {"fs.write", R"({"path":"f","content":"%%%","encoding":"base64"})"},
      {"fs.write", R"({"path":"f","content":{"$stream":1}})"},
      {"fs.multi_edit", R"({"path":"f","edits":[]})"},
      {"fs.multi_edit", R"({"path":"f","edits":[{"old_string":"a"}]})"},
      {"fs.multi_edit", R"({"path":"f","edits":[7]})"},
      {"fs.grep", R"({"pattern":"x","include":[1]})"},
      {"fs.grep", R"({"pattern":"x","mode":"lines"})"},
      {"fs.glob", R"({"pattern":""})"},
      {"env.get", R"({"names":"HOME"})"},
  };
  for (const auto& [method, params] : cases) {
    const std::string answer = call(service, method, params);
    EXPECT_NE(answer.find("INVALID_PARAMS"), std::string::npos) << method << params << answer;
  }
  EXPECT_EQ(box.read("f"), "x");
}

TEST(Service, ErrorsTellNothingOfTheHost) {
  SandboxDir box;
  box.link("out", box.outside() + "/secret");
  const Service service(box.open());
  for (const char* path : {"out", "../outside/secret", "/etc/shadow", "nothing/here"}) {
    const std::string answer = call(service, "fs.read", "{\"path\":\"" + std::string(path) + "\"}");
    EXPECT_EQ(answer.find(box.outside()), std::string::npos) << answer;
    EXPECT_EQ(answer.find("sallyport-worker"), std::string::npos) << answer;
  }
}

TEST(Service, TheEnvironmentIsWhatItWasGiven) {
  SandboxDir box;
  const Service service(box.open(), [](const std::string& name) -> std::optional<std::string> {
    if (name == "A") return "1";
    if (name == "EMPTY") return "";
    return std::nullopt;
  });
  EXPECT_EQ(call(service, "env.get", R"({"names":["A","B","EMPTY"]})"), R"({"result":{"values":["1",null,""]}})");
}

TEST(Service, AnAnswerOfManyEscapesStillFitsItsFrame) {
  SandboxDir box;
  box.write("f", std::string(900'000, '\x01'));
  const std::string answer = call(Service(box.open()), "fs.read", R"({"path":"f","max_bytes":983040})");
  EXPECT_LT(answer.size(), wire::kMaxFrameBytes);
  EXPECT_NE(answer.find("\"truncated\":true"), std::string::npos);
}

}  // namespace
}  // namespace sallyport::worker

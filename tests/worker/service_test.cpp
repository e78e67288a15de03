#include "worker/service.h"

#include <gtest/gtest.h>

#include <sstream>

#include "wire/wire.h"
#include "worker/sandbox_dir.h"

namespace sallyport::worker {
namespace {

using wire::Value;

// What a method answers: {"result":...} or {"error":{...}}.
std::string call(const Service& service, std::string_view method, std::string_view params) {
  wire::Decoder decoder;
  const auto document = decoder.parse(params);
  if (!document) return "params: " + document.error().describe();
  Bytes body;
  wire::JsonWriter json(body);
  Stop stop;
  const auto done = service.handle(method, {document->root(), stop, json, nullptr});
  if (done) return "{\"result\":" + std::string(as_text(body.view())) + "}";
  return wire::to_json([&](wire::JsonWriter& out) {
    out.begin_object().key("error");
    wire::write_error(out, done.error());
    out.end_object();
  });
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

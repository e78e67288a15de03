#include "worker/service.h"

#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "base/utf8.h"
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

TEST(Service, AVariableThatIsAskedForAThousandTimesTakesNoMoreThanAnAnswer) {
  SandboxDir box;
  int asked = 0;
  const Service service(box.open(), [&](const std::string&) {
    ++asked;
    return std::optional(std::string(100'000, 'x'));
  });
  std::string names = "\"A\"";
  for (int i = 1; i < 1000; ++i) names += ",\"A\"";
  EXPECT_NE(call(service, "env.get", "{\"names\":[" + names + "]}").find("PAYLOAD_TOO_LARGE"), std::string::npos);
  EXPECT_LT(asked, 20);
}

TEST(Service, AnAnswerOfManyEscapesStillFitsItsFrame) {
  SandboxDir box;
  box.write("f", std::string(900'000, '\x01'));
  const std::string answer = call(Service(box.open()), "fs.read", R"({"path":"f","max_bytes":983040})");
  EXPECT_LT(answer.size(), wire::kMaxFrameBytes);
  EXPECT_NE(answer.find("\"truncated\":true"), std::string::npos);
}

// Names that are no UTF-8 look alike once they are shown; a cursor must still tell them apart.
TEST(Service, PagesGiveEveryNameOnceWhateverItsBytes) {
  SandboxDir box;
  const std::vector<std::string> names = {
      "%", "%41", "a b", "\x80z", "\xc3\xa9", std::string("\xff") + "a", std::string("\xff") + "b"};
  for (const std::string& name : names) box.write("d/" + name, "hit\nhit\n");
  const Service service(box.open());
  const auto pages = [&](const std::string& method, const std::string& params, std::string_view array,
                         std::string_view member) {
    std::vector<std::string> all;
    std::string cursor;
    for (int page = 0; page < 100; ++page) {
      const std::string answer = call(service, method, "{" + params + cursor + "}");
      wire::Decoder decoder;
      const auto document = decoder.parse(answer);
      const Value result = document->root().get("result");
      EXPECT_TRUE(result.exists()) << answer;
      for (const Value one : result.get(array).items())
        all.emplace_back((member.empty() ? one : one.get(member)).as_string().value_or("?"));
      if (method != "fs.grep") {
        EXPECT_EQ(result.get("total").as_uint(), names.size()) << "the same on every page";
      }
      if (!result.get("cursor").exists()) break;
      cursor = ",\"cursor\":" + result.get("cursor").to_json();
    }
    return all;
  };
  std::vector<std::string> shown;
  std::vector<std::string> paths;
  std::vector<std::string> lines;
  for (const std::string& name : names) {
    shown.push_back(to_utf8_lossy(name));
    paths.push_back("d/" + shown.back());
    lines.insert(lines.end(), 2, paths.back());
  }
  EXPECT_EQ(pages("fs.list", R"("path":"d","limit":1)", "entries", "name"), shown);
  EXPECT_EQ(pages("fs.glob", R"("pattern":"**","limit":1)", "paths", ""), paths);
  EXPECT_EQ(pages("fs.glob", R"("pattern":"*","root":"d","limit":2)", "paths", ""), paths);
  EXPECT_EQ(pages("fs.grep", R"("pattern":"hit","limit":1)", "matches", "path"), lines);
  EXPECT_EQ(pages("fs.grep", R"("pattern":"hit","root":"d","limit":3)", "matches", "path"), lines);
  EXPECT_EQ(pages("fs.grep", R"("pattern":"hit","mode":"files","limit":1)", "files", ""), paths);
}

TEST(Service, ACursorFromElsewhereIsRefused) {
  SandboxDir box;
  box.write("d/f", "hit\n");
  const Service service(box.open());
  const std::pair<const char*, const char*> cases[] = {
      {"fs.list", R"({"cursor":"list:a/b"})"},
      {"fs.list", R"({"cursor":"list:%zz"})"},
      {"fs.list", R"({"cursor":"list:%41"})"},
      {"fs.glob", R"({"pattern":"*","cursor":"glob:%ff"})"},
      {"fs.glob", R"({"pattern":"*","root":"d","cursor":"glob:f"})"},
      {"fs.glob", R"({"pattern":"*","root":"d","cursor":"glob:d/"})"},
      {"fs.glob", R"({"pattern":"*","cursor":"glob:../x"})"},
      {"fs.glob", R"({"pattern":"*","cursor":"glob:/etc"})"},
      {"fs.glob", R"({"pattern":"*","cursor":"glob:a//b"})"},
      {"fs.grep", R"({"pattern":"x","cursor":"grep:f"})"},
      {"fs.grep", R"({"pattern":"x","cursor":"grep:0:"})"},
      {"fs.grep", R"({"pattern":"x","cursor":"grep:01:f"})"},
      {"fs.grep", R"({"pattern":"x","cursor":"grep:-1:f"})"},
      {"fs.grep", R"({"pattern":"x","cursor":"grep:99999999999999999999:f"})"},
      {"fs.grep", R"({"pattern":"x","cursor":"grep:1:%"})"},
      {"fs.grep", R"({"pattern":"x","cursor":"grep:0:../x"})"},
      {"fs.grep", R"({"pattern":"x","mode":"count","cursor":"grep:1:f"})"},
      {"fs.grep", R"({"pattern":"x","root":"d","cursor":"grep:1:f"})"},
      {"fs.grep", R"({"pattern":"x","root":"d/f","cursor":"grep:1:d/f2"})"},
  };
  // What one kind of request ended with is no other kind's, nor is what looks like it.
  for (const char* text : {"0:1:-:-", "f", "../x", "/etc", "0:f", "list:f", "glob:f", "grep:0:f"}) {
    const std::string cursor = text;
    for (const char* name : {"list", "glob", "grep"}) {
      const std::string method = name;
      if (cursor.starts_with(method + ":")) continue;
      const std::string pattern = method == "list" ? "" : R"("pattern":"x",)";
      const std::string answer = call(service, "fs." + method, "{" + pattern + R"("cursor":")" + cursor + "\"}");
      EXPECT_NE(answer.find(R"("field":"params.cursor")"), std::string::npos) << method << cursor << answer;
    }
  }
  for (const auto& [method, params] : cases) {
    const std::string answer = call(service, method, params);
    EXPECT_NE(answer.find(R"("field":"params.cursor")"), std::string::npos) << method << params << answer;
  }
  EXPECT_NE(call(service, "fs.grep", R"({"pattern":"x","root":"d/f","cursor":"grep:1:d/f"})").find("result"),
            std::string::npos);
}

TEST(Service, APageOfHitsFitsItsFrameWhateverThePathsAndBytes) {
  SandboxDir box;
  std::string path;
  for (int i = 0; i < 15; ++i) path += std::string(200, 'd') + "/";
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "x\xff\xff\xff\xff\xff\xff\xff\n";
  box.write(path + "f", text);
  box.write("long", std::string(20, 'x') + "\n" + std::string(300 << 10, '\x01') + "\nx\n");
  const Service service(box.open());
  for (const char* params :
       {R"({"pattern":"x","limit":100000,"max_bytes":983040})",
        R"({"pattern":"x","limit":100000,"max_bytes":983040,"context":1000})",
        R"({"pattern":"x","max_bytes":983040,"context":9,"max_line_bytes":65536,"root":"long"})",
        R"({"pattern":".","limit":100000,"max_bytes":983040,"only_matching":true,"root":"long"})"}) {
    const std::string answer = call(service, "fs.grep", params);
    EXPECT_LT(answer.size(), wire::kMaxFrameBytes - 1000) << params;
    EXPECT_NE(answer.find("\"matches\":[{"), std::string::npos) << params << answer.substr(0, 300);
  }
}

TEST(Service, ErrorsNameThePathAndTheFieldThatTheyAreAbout) {
  SandboxDir box;
  box.write("f", "x");
  const Service service(box.open());
  const std::array<const char*, 3> cases[] = {
      {"fs.read", R"({"path":"no/such"})", "'no/such': open"},
      {"fs.read", R"({"path":""})", R"("field":"params.path")"},
      {"fs.edit", R"({"path":"f","old_string":"y","new_string":"z"})", "'f': old_string was not found"},
      {"fs.write", R"({"path":"no/such","content":""})", "'no/such': "},
      {"fs.stat", R"({"path":"no/such"})", "'no/such': "},
      {"fs.list", R"({"path":"f"})", "'f': "},
      {"fs.remove", R"({"path":"no/such"})", "'no/such': "},
      {"fs.mkdir", R"({"path":"f"})", "'f': there is something"},
      {"fs.copy", R"({"from":"no/such","to":"g"})", "'no/such': "},
      {"fs.copy", R"({"from":"f","to":"no/such"})", "'no/such': "},
      {"fs.move", R"({"from":"f","to":""})", R"("field":"params.to")"},
      {"fs.move", R"({"from":"","to":"g"})", R"("field":"params.from")"},
      {"fs.glob", R"({"pattern":"*","root":""})", R"("field":"params.root")"},
      {"fs.grep", R"({"pattern":"x","root":""})", R"("field":"params.root")"},
      {"fs.grep", R"({"pattern":"x","root":"no/such"})", "'no/such': "},
  };
  for (const auto& [method, params, wanted] : cases) {
    const std::string answer = call(service, method, params);
    EXPECT_NE(answer.find(wanted), std::string::npos) << method << params << answer;
    EXPECT_EQ(answer.find(box.root()), std::string::npos) << answer;
  }
}

TEST(Service, ADiffThatIsNotExactSaysSo) {
  SandboxDir box;
  box.write("f", "caf\xe9 one\n");
  const Service service(box.open());
  const std::string answer = call(service, "fs.edit", R"({"path":"f","old_string":"one","new_string":"two"})");
  EXPECT_NE(answer.find(R"("diff_inexact":true)"), std::string::npos) << answer;
}

}  // namespace
}  // namespace sallyport::worker

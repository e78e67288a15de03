// The sample tools of the MCP conformance suite, on the protocol layer of the bridge: a program of the tests.
#include <unistd.h>

#include "mcp/server.h"

namespace {

using namespace sallyport;
using mcp::Tool;
using mcp::ToolCall;

constexpr const char* kPng =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
constexpr const char* kWav = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

const std::string kImage = R"({"type":"image","mimeType":"image/png","data":")" + std::string(kPng) + R"("})";
const std::vector<std::pair<std::string, std::string>> kSamples = {
    {"test_simple_text", R"([{"type":"text","text":"This is a simple text response for testing."}])"},
    {"test_image_content", "[" + kImage + "]"},
    {"test_audio_content", R"([{"type":"audio","mimeType":"audio/wav","data":")" + std::string(kWav) + R"("}])"},
    {"test_embedded_resource",
     R"([{"type":"resource","resource":{"uri":"test://embedded-resource","mimeType":"text/plain","text":"This is an embedded resource content."}}])"},
    {"test_multiple_content_types",
     R"([{"type":"text","text":"Multiple content types test:"},)" + kImage +
         R"(,{"type":"resource","resource":{"uri":"test://mixed-content-resource","mimeType":"application/json","text":"{\"test\":\"data\",\"value\":123}"}}])"},
    {"test_tool_with_progress", R"([{"type":"text","text":"done"}])"},
    {"test_error_handling", R"([{"type":"text","text":"This tool intentionally returns an error for testing"}])"},
    {"json_schema_2020_12_tool", R"([{"type":"text","text":"done"}])"},
};
constexpr const char* kNoArguments = R"({"type":"object","properties":{},"additionalProperties":false})";
constexpr const char* kModernSchema =
    R"({"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"}},"additionalProperties":false})";

class Samples final : public mcp::Tools {
 public:
  Samples() {
    for (const auto& [name, content] : kSamples) {
      const bool is_modern = name.starts_with("json_schema");
      tools_.push_back({name, name, "A sample tool of the conformance suite.", is_modern ? kModernSchema : kNoArguments,
                        "", true, false, true});
    }
  }
  const std::vector<Tool>& list() const override { return tools_; }
  void call(std::shared_ptr<ToolCall> call) override {
    for (const auto& [name, content] : kSamples) {
      if (call->name() != name) continue;
      if (name == "test_tool_with_progress") {
        for (const double done : {0.0, 50.0, 100.0}) call->progress(done, 100, "");
      }
      return call->finish(name == "test_error_handling",
                          [&](wire::JsonWriter& json) { json.key("content").raw(content); });
    }
  }

 private:
  std::vector<Tool> tools_;
};

}  // namespace

int main() {
  Samples samples;
  mcp::Server server({"fixture", "Fixture", "1", "For tests."}, samples);
  for (;;) {
    const auto room = server.input().writable();
    const ssize_t count = ::read(STDIN_FILENO, room.data(), room.size());
    if (count <= 0) return 0;
    server.input().commit(static_cast<std::size_t>(count));
    server.handle_input();
    Bytes& output = server.output();
    if (::write(STDOUT_FILENO, output.data(), output.size()) != static_cast<ssize_t>(output.size())) return 1;
    output.clear();
  }
}

// Whatever lines come: no crash, and every answer is a line of valid JSON.
#include <cstdlib>

#include "mcp/server.h"

namespace {

using namespace sallyport;

class NoTools final : public mcp::Tools {
 public:
  const std::vector<mcp::Tool>& list() const override { return tools_; }
  void call(std::shared_ptr<mcp::ToolCall> call) override {
    call->progress(1, std::nullopt, call->name());
    call->finish_text(true, call->arguments().to_json());
  }

 private:
  std::vector<mcp::Tool> tools_ = {{"t", "T", "D", "{}", "", true, false, true}};
};

void demand(bool holds) {
  if (!holds) std::abort();
}

void check_output(Bytes& output) {
  std::string_view text = as_text(output.view());
  wire::Decoder decoder;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    demand(end != std::string_view::npos);
    demand(bool(decoder.parse(text.substr(0, end))));
    text.remove_prefix(end + 1);
  }
  output.clear();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  NoTools tools;
  mcp::Server server({"s", "S", "1", "I"}, tools);
  server.input().feed({data, size});
  server.handle_input();
  check_output(server.output());
  return 0;
}

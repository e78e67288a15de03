#include "mcp/exec_tool.h"

#include <array>

#include "mcp/advice.h"
#include "mcp/arguments.h"
#include "mcp/limits.h"

namespace sallyport::mcp {
namespace {

using wire::Field;
using wire::JsonWriter;
using wire::Type;
using wire::Value;

constexpr std::array kArguments = {
    Argument{{.name = "command", .type = Type::string, .required = true, .least = 1, .most = 64 << 10},
             "A shell command (bash where there is one)."},
    Argument{{.name = "directory", .type = Type::string, .most = 4095},
             "Where it runs: absolute, or relative to the workspace, which is the default."},
    Argument{{.name = "timeout_ms", .type = Type::integer, .least = 1, .most = kLongestCommandTime.count()},
             "It is killed after this time (default 120000)."},
    Argument{{.name = "max_output_bytes", .type = Type::integer, .least = 256, .most = kMostOutputBytes},
             "Of longer output the middle is left out (default 65536)."},
};
constexpr std::string_view kOutputSchema =
    R"({"type":"object","properties":{"exit_code":{"type":"integer"},"stdout":{"type":"string"},"stderr":{"type":"string"},"timed_out":{"type":"boolean"},"bytes_left_out":{"type":"integer"}},"required":["exit_code","stdout","stderr","timed_out","bytes_left_out"]})";

// Models write for bash; the sandbox may have only sh.
constexpr std::string_view kShell = R"(if command -v bash >/dev/null; then exec bash -c "$1"; fi; exec sh -c "$1")";
constexpr int kKilled = 128 + 9;

// The end of `text` that may be the beginning of a character whose rest is still to come.
std::size_t unfinished_character(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

class ExecOperation final : public Operation {
 public:
  ExecOperation(std::shared_ptr<ToolCall> call, Place& place, const std::string& workspace)
      : Operation(std::move(call), place, workspace),
        limit_(Millis(this->call().arguments().get("timeout_ms").as_int().value_or(kDefaultCommandTime.count()))),
        out_(most_output(this->call())),
        err_(most_output(this->call())) {}

 private:
  static std::size_t most_output(const ToolCall& call) {
    return static_cast<std::size_t>(call.arguments().get("max_output_bytes").as_int().value_or(kDefaultOutputBytes));
  }

  void on_event(const wire::Message& event) override {
    Operation::on_event(event);
    if (event.method != "container.started") return;
    // Time waited for an approval is not the command's.
    deadline_ = std::chrono::steady_clock::now() + limit_;
    out_stream_ = static_cast<std::uint32_t>(event.params.get("stdout").get("$stream").as_int().value_or(0));
    err_stream_ = static_cast<std::uint32_t>(event.params.get("stderr").get("$stream").as_int().value_or(0));
  }

  SteadyTime on_turn(SteadyTime now) override {
    drain(out_stream_, out_);
    drain(err_stream_, err_);
    if (!timed_out_ && now >= deadline_) {
      timed_out_ = true;
      cancel();
    }
    const SteadyTime next = timed_out_ ? SteadyTime::max() : deadline_;
    if (news_.empty() || !call().wants_progress()) {
      news_.clear();
      return next;
    }
    if (now < next_report_) return std::min(next, next_report_);
    next_report_ = now + kProgressInterval;
    report_news();
    return news_.empty() ? next : std::min(next, next_report_);
  }

  // Takes what came of a stream. A stream at its end is forgotten.
  void drain(std::uint32_t& stream, OutputKeeper& into) {
    while (stream != 0) {
      auto bytes = place().read(stream);
      if (!bytes && bytes.error().code == Code::timeout) return;
      if (!bytes || bytes->empty()) {
        stream = 0;
        return;
      }
      into.add(as_text(bytes->view()));
      if (call().wants_progress()) news_.append(as_text(bytes->view()));
      // Whoever writes faster than the client takes notifications sees the newest.
      if (news_.size() > 4 * kProgressBytes) news_.erase(0, news_.size() - kProgressBytes);
    }
  }

  void report_news() {
    const std::size_t whole = news_.size() - unfinished_character(news_);
    const std::size_t size = std::min(whole, kProgressBytes);
    if (size == 0) return;
    report(std::string_view(news_).substr(0, size));
    news_.erase(0, size);
  }

  void on_answer(const Result<Answer>& answer) override {
    drain(out_stream_, out_);
    drain(err_stream_, err_);
    while (!news_.empty() && call().wants_progress() && news_.size() > unfinished_character(news_)) report_news();
    if (!answer && !timed_out_) return fail(answer.error());
    const std::int64_t status = answer ? answer->value().get("exit_code").as_int().value_or(kKilled) : kKilled;
    const std::string out = out_.text(), err = err_.text();
    const std::string structured = wire::to_json([&](JsonWriter& json) {
      json.begin_object().member("exit_code", status).member("stdout", out).member("stderr", err);
      json.member("timed_out", timed_out_).member("bytes_left_out", out_.left_out() + err_.left_out()).end_object();
    });
    call().finish(
        timed_out_,
        [&](JsonWriter& json) {
          json.key("content").begin_array().begin_object().member("type", "text");
          json.member("text", describe(status, out, err)).end_object().end_array();
        },
        structured);
  }

  std::string describe(std::int64_t status, const std::string& out, const std::string& err) const {
    std::string text = out;
    if (!text.empty() && text.back() != '\n') text += '\n';
    if (!err.empty()) text += "[stderr]\n" + err;
    if (!text.empty() && text.back() != '\n') text += '\n';
    if (timed_out_) {
      return text + "[killed after " + std::to_string(limit_.count()) +
             " ms: set a longer timeout_ms, or do less at once]";
    }
    return text + "[exit code " + std::to_string(status) + "]";
  }

  Millis limit_;
  OutputKeeper out_, err_;
  std::uint32_t out_stream_ = 0, err_stream_ = 0;
  std::string news_;
  SteadyTime deadline_ = SteadyTime::max(), next_report_;
  bool timed_out_ = false;
};

std::string exec_params(Value given, const std::string& workspace) {
  std::string directory(given.get("directory").as_string().value_or(""));
  if (!directory.starts_with('/')) directory = workspace + "/" + directory;
  return wire::to_json([&](JsonWriter& json) {
    json.begin_object().key("command").begin_array().value("/bin/sh").value("-c").value(kShell).value("sh");
    json.value(*given.get("command").as_string()).end_array().member("directory", directory).end_object();
  });
}

}  // namespace

void OutputKeeper::add(std::string_view bytes) {
  total_ += bytes.size();
  const std::size_t first = std::min(bytes.size(), half_ - head_.size());
  head_.append(bytes.substr(0, first));
  tail_.append(bytes.substr(first));
  if (tail_.size() > half_) tail_.erase(0, tail_.size() - half_);
}

std::string OutputKeeper::text() const {
  if (left_out() == 0) return head_ + tail_;
  return head_ + "\n[" + std::to_string(left_out()) + " bytes left out]\n" + tail_;
}

Tool exec_tool(bool is_read_only) {
  Tool tool;
  tool.name = "exec";
  tool.title = "Run a command";
  tool.description =
      "Runs a shell command in the sandbox and answers with its output and exit code. It sees the workspace and the "
      "system's programs, has no terminal and no input, and reaches no network unless its profile allows it. What it "
      "leaves running in the background ends with the sandbox. For files prefer the other tools.";
  tool.input_schema = input_schema(kArguments);
  tool.output_schema = kOutputSchema;
  tool.is_read_only = is_read_only;
  tool.is_destructive = !is_read_only;
  return tool;
}

std::shared_ptr<Operation> start_exec(std::shared_ptr<ToolCall> call, Place& place, const std::string& workspace) {
  if (const Status checked = check_arguments(kArguments, call->arguments()); !checked) {
    call->finish_text(true, explain(checked.error(), call->name(), workspace));
    return nullptr;
  }
  std::string params = exec_params(call->arguments(), workspace);
  auto operation = std::make_shared<ExecOperation>(std::move(call), place, workspace);
  operation->start("container.exec", std::move(params));
  return operation;
}

}  // namespace sallyport::mcp

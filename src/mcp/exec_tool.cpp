#include "mcp/exec_tool.h"

#include <algorithm>
#include <array>

#include "mcp/advice.h"
#include "mcp/arguments.h"
#include "mcp/limits.h"

namespace sallyport::mcp {
namespace {

using wire::JsonWriter;
using wire::Type;
using wire::Value;

constexpr std::array kArguments = {
    Argument{{.name = "command", .type = Type::string, .required = true, .least = 1, .most = 64 << 10},
             "A shell command (bash where there is one)."},
    Argument{{.name = "directory", .type = Type::string, .most = 4095},
             "Where it runs: absolute, or relative to the workspace, which is the default."},
    Argument{{.name = "timeout_ms", .type = Type::integer, .least = 1, .most = kLongestCommandTime.count()},
             "It is killed after this time (default 50000)."},
    Argument{{.name = "max_output_bytes", .type = Type::integer, .least = 256, .most = kMostOutputBytes},
             "Of longer output the middle is left out (default 65536)."},
};
constexpr std::string_view kOutputSchema =
    R"({"type":"object","properties":{"exit_code":{"type":"integer"},"stdout":{"type":"string"},"stderr":{"type":"string"},"timed_out":{"type":"boolean"},"bytes_left_out":{"type":"integer"},"note":{"type":"string"}},"required":["exit_code","stdout","stderr","timed_out","bytes_left_out"]})";

// Models write for bash; the sandbox may have only sh.
constexpr std::string_view kShell = R"(if command -v bash >/dev/null; then exec bash -c "$1"; fi; exec sh -c "$1")";
constexpr std::array<std::string_view, 4> kShellWords = {"/bin/sh", "-c", kShell, "sh"};  // then the command
constexpr int kKilled = 128 + 9;

// How programs say that they got no answer from the network; lower case.
constexpr std::array<std::string_view, 13> kNetworkTrouble = {
    "could not resolve", "couldn't resolve",  "unable to resolve", "failed to resolve",      "failure resolving",
    "name resolution",   "service not known", "unknown host",      "network is unreachable", "enetunreach",
    "enotfound",         "eai_again",         "getaddrinfo"};

bool speaks_of_the_network(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::any_of(kNetworkTrouble.begin(), kNetworkTrouble.end(),
                     [&](std::string_view words) { return text.find(words) != std::string::npos; });
}

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
    approved();
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
    call().report(std::string_view(news_).substr(0, size));
    news_.erase(0, size);
  }

  void on_answer(const Result<Answer>& answer) override {
    for (auto [stream, into] : {std::pair(&out_stream_, &out_), std::pair(&err_stream_, &err_)}) {
      drain(*stream, *into);
      // One that was cancelled may have no end.
      if (*stream != 0) place().drop(std::exchange(*stream, 0));
    }
    while (!news_.empty() && call().wants_progress() && news_.size() > unfinished_character(news_)) report_news();
    if (!answer && !timed_out_) return fail(answer.error());
    const std::int64_t status = answer ? answer->value().get("exit_code").as_int().value_or(kKilled) : kKilled;
    const std::string out = out_.text(), err = err_.text();
    const std::string note = network_note(status, out, err);
    const std::string structured = wire::to_json([&](JsonWriter& json) {
      json.begin_object().member("exit_code", status).member("stdout", out).member("stderr", err);
      json.member("timed_out", timed_out_).member("bytes_left_out", out_.left_out() + err_.left_out());
      if (!note.empty()) json.member("note", note);
      json.end_object();
    });
    call().finish(
        timed_out_,
        [&](JsonWriter& json) {
          json.key("content").begin_array().begin_object().member("type", "text");
          json.member("text", describe(status, out, err) + (note.empty() ? "" : "\n[" + note + "]"))
              .end_object()
              .end_array();
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

  // A command cannot know why it has no network, and what to do about that.
  std::string network_note(std::int64_t status, const std::string& out, const std::string& err) {
    const PlaceOptions& options = place().options();
    if (status == 0 || options.has_network || !speaks_of_the_network(err + out)) return "";
    return "This sandbox has no network: its profile '" + options.profile +
           "' allows none. Do not try other ways; if it is needed, the user can start `sallyport mcp --profile NAME` "
           "with a profile whose net.allow names the hosts.";
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
    json.begin_object().key("command").begin_array();
    for (const std::string_view word : kShellWords) json.value(word);
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

std::optional<std::string> command_of(Value params) {
  std::vector<std::string_view> words;
  for (const Value word : params.get("command").items()) words.push_back(word.as_string().value_or(""));
  const bool is_ours =
      words.size() == kShellWords.size() + 1 && std::equal(kShellWords.begin(), kShellWords.end(), words.begin());
  if (!is_ours) return std::nullopt;
  return std::string(words.back());
}

Tool exec_tool(const PlaceOptions& place) {
  Tool tool;
  tool.name = "exec";
  tool.title = "Run a command";
  tool.description =
      "Runs a shell command in the sandbox and answers with its output and exit code. It sees the workspace and the "
      "system's programs, has no terminal and no input, and " +
      std::string(place.has_network ? "reaches only the hosts that its profile names" : "reaches no network") +
      ". What it leaves running in the background, and what it leaves in /tmp, ends with the sandbox. For files prefer "
      "the other tools.";
  tool.input_schema = input_schema(kArguments);
  tool.output_schema = kOutputSchema;
  // Whoever reaches others can change something there.
  tool.is_open_world = place.has_network;
  tool.is_read_only = place.is_read_only && !place.has_network;
  tool.is_destructive = !tool.is_read_only;
  return tool;
}

std::shared_ptr<Operation> start_exec(std::shared_ptr<ToolCall> call, Place& place, const std::string& workspace) {
  if (const Status checked = check_arguments(kArguments, *call); !checked) {
    call->finish_text(true, explain(checked.error(), call->name(), workspace));
    return nullptr;
  }
  std::string params = exec_params(call->arguments(), workspace);
  auto operation = std::make_shared<ExecOperation>(std::move(call), place, workspace);
  operation->start("container.exec", std::move(params));
  return operation;
}

}  // namespace sallyport::mcp

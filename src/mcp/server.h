// The protocol: an MCP server for clients of the revisions 2024-11-05 to 2025-11-25. Bytes in, bytes out; it
// knows nothing of what its tools do. A later revision replaces this file and leaves the tools alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "mcp/lines.h"
#include "mcp/rpc.h"
#include "wire/json.h"

namespace sallyport::mcp {

// What a client shows its model of a tool.
struct Tool {
  std::string name, title, description;
  std::string input_schema;   // JSON text
  std::string output_schema;  // the same, of structuredContent; empty: there is none
  bool is_read_only = false;
  bool is_destructive = false;
  bool is_idempotent = false;
  bool is_open_world = false;  // reaches beyond its sandbox
};

class Server;

// One tools/call. Whoever holds it answers it once; a call that was cancelled needs no answer, and one that
// is given is dropped.
class ToolCall {
 public:
  ToolCall(Server& server, std::shared_ptr<wire::Document> document, const RpcMessage& request);

  const std::string& name() const { return name_; }
  wire::Value arguments() const { return arguments_; }  // an object, or absent
  void set_arguments(wire::Document document);
  // Whether the caller has this tool, too: what it is told must not name others.
  bool can_use(std::string_view tool) const;

  // Tells a client that asked for it; `done` must rise.
  bool wants_progress() const { return !progress_token_.empty(); }
  void progress(double done, std::optional<double> total, std::string_view message);
  // The same for what nobody can measure: that it goes on.
  void report(std::string_view message) { progress(++reports_, std::nullopt, message); }
  // Reports that it goes on if nothing was for a while. When to be asked again.
  SteadyTime beat(SteadyTime now);

  // `members` writes those of the result, `content` first; `structured` is the JSON text of an object, or
  // empty. Revisions without structured content do not see it.
  void finish(bool is_error, const std::function<void(wire::JsonWriter&)>& members, std::string_view structured = {});
  void finish_text(bool is_error, std::string_view text);

  // Runs when the client gives up.
  void on_cancel(std::function<void()> work) { on_cancel_ = std::move(work); }
  bool is_over() const { return server_ == nullptr; }

 private:
  friend class Server;
  Server* server_;
  std::shared_ptr<wire::Document> document_;
  std::string id_, name_, progress_token_;
  wire::Value arguments_;
  std::function<void()> on_cancel_;
  double reports_ = 0;
  SteadyTime reported_at_ = std::chrono::steady_clock::now();
};

class Tools {
 public:
  virtual ~Tools() = default;
  virtual const std::vector<Tool>& list() const = 0;
  virtual void call(std::shared_ptr<ToolCall> call) = 0;  // of one that list() names
};

struct ServerOptions {
  std::string name, title, version, instructions;
  std::size_t tools_per_page = kToolsPerPage;
};

class Server {
 public:
  Server(ServerOptions options, Tools& tools);
  ~Server();  // calls that are still held somewhere are over
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  LineReader& input() { return reader_; }
  void handle_input();  // every complete line that input() holds
  Bytes& output() { return output_; }
  std::size_t calls_in_flight() const { return calls_.size(); }

 private:
  friend class ToolCall;
  // Revision 2025-03-26 lets clients send several messages in one array; their answers go back in one.
  struct Batch {
    Bytes answers;
    std::size_t awaited = 0;
  };

  void handle_line(const LineReader::Line& line);
  bool is_in_flight(const std::string& id) const { return calls_.contains(id) || batched_.contains(id); }
  void handle_batch(const std::shared_ptr<wire::Document>& document, wire::Value messages);
  void handle_message(const std::shared_ptr<wire::Document>& document, wire::Value value,
                      const std::shared_ptr<Batch>& batch);
  void handle_request(const std::shared_ptr<wire::Document>& document, const RpcMessage& request);
  void handle_notification(const RpcMessage& notification);
  void initialize(const RpcMessage& request);
  void list_tools(const RpcMessage& request);
  void call_tool(const std::shared_ptr<wire::Document>& document, const RpcMessage& request);

  void answer(const std::string& id, const std::function<void(wire::JsonWriter&)>& members);
  void refuse(const std::string& id, RpcCode code, std::string message);
  // What is no request, or one that cannot be told from another: under its id only if nobody waits for that.
  void refuse_message(RpcFault fault, const std::shared_ptr<Batch>& batch = nullptr);
  // Writes one answer where it belongs: a line of its own, or its batch.
  void send(const std::string& id, const std::function<void(Bytes&)>& write);
  static void add(Batch& batch, const std::function<void(Bytes&)>& write);
  void settle(Batch& batch);  // one less is awaited
  bool has_structured_content() const;

  ServerOptions options_;
  Tools& tools_;
  LineReader reader_;
  wire::Decoder decoder_;
  Bytes output_;
  std::string revision_;  // empty until initialize
  std::map<std::string, std::shared_ptr<ToolCall>, std::less<>> calls_;
  std::map<std::string, std::shared_ptr<Batch>, std::less<>> batched_;  // by the id that is awaited
};

}  // namespace sallyport::mcp

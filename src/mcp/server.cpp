#include "mcp/server.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace sallyport::mcp {
namespace {

using wire::JsonWriter;
using wire::Value;

constexpr std::array<std::string_view, 4> kRevisions = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
constexpr std::string_view kBatchRevision = "2025-03-26";
constexpr std::string_view kStructuredSince = "2025-06-18";

void write_tool(JsonWriter& json, const Tool& tool, bool is_structured) {
  json.begin_object().member("name", tool.name);
  if (is_structured) json.member("title", tool.title);
  json.member("description", tool.description).key("inputSchema").raw(tool.input_schema);
  if (is_structured && !tool.output_schema.empty()) json.key("outputSchema").raw(tool.output_schema);
  json.key("annotations").begin_object().member("title", tool.title).member("readOnlyHint", tool.is_read_only);
  json.member("destructiveHint", tool.is_destructive).member("idempotentHint", tool.is_idempotent);
  json.member("openWorldHint", tool.is_open_world).end_object().end_object();
}

}  // namespace

// ---- one call ----

ToolCall::ToolCall(Server& server, std::shared_ptr<wire::Document> document, const RpcMessage& request)
    : server_(&server),
      document_(std::move(document)),
      id_(request.id),
      name_(request.params.get("name").as_string().value_or("")),
      arguments_(request.params.get("arguments")) {
  if (const Value token = request.params.get("_meta").get("progressToken")) progress_token_ = token.to_json();
}

void ToolCall::set_arguments(wire::Document document) {
  document_ = std::make_shared<wire::Document>(std::move(document));
  arguments_ = document_->root();
}

bool ToolCall::can_use(std::string_view tool) const {
  if (is_over()) return false;
  const std::vector<Tool>& tools = server_->tools_.list();
  return std::any_of(tools.begin(), tools.end(), [&](const Tool& each) { return each.name == tool; });
}

void ToolCall::progress(double done, std::optional<double> total, std::string_view message) {
  if (is_over() || !wants_progress()) return;
  reported_at_ = std::chrono::steady_clock::now();
  write_notification(server_->output_, "notifications/progress", [&](JsonWriter& json) {
    json.key("progressToken").raw(progress_token_).member("progress", done);
    if (total) json.member("total", *total);
    if (!message.empty()) json.member("message", message);
  });
  server_->output_.push_back('\n');
}

SteadyTime ToolCall::beat(SteadyTime now) {
  if (is_over() || !wants_progress()) return SteadyTime::max();
  if (now >= reported_at_ + kHeartbeat) report("");
  return reported_at_ + kHeartbeat;
}

void ToolCall::finish(bool is_error, const std::function<void(JsonWriter&)>& members, std::string_view structured) {
  if (is_over()) return;
  Server& server = *std::exchange(server_, nullptr);
  on_cancel_ = nullptr;
  server.answer(id_, [&](JsonWriter& json) {
    members(json);
    if (!structured.empty() && server.has_structured_content()) json.key("structuredContent").raw(structured);
    json.member("isError", is_error);
  });
  server.calls_.erase(server.calls_.find(id_));
}

void ToolCall::finish_text(bool is_error, std::string_view text) {
  finish(is_error, [&](JsonWriter& json) {
    json.key("content").begin_array().begin_object().member("type", "text").member("text", text);
    json.end_object().end_array();
  });
}

// ---- lines ----

Server::Server(ServerOptions options, Tools& tools) : options_(std::move(options)), tools_(tools) {}

Server::~Server() {
  for (const auto& [id, call] : calls_) call->server_ = nullptr;
}

bool Server::has_structured_content() const { return revision_ >= kStructuredSince; }

void Server::handle_input() {
  while (const auto line = reader_.next()) {
    if (line->is_too_long) {
      refuse_message({RpcCode::invalid_request, find_id(line->head, line->tail),
                      "Invalid request: a message of more than " + std::to_string(kMaxLineBytes) + " bytes"});
    } else {
      handle_line(*line);
    }
  }
}

void Server::handle_line(const LineReader::Line& line) {
  auto parsed = decoder_.parse(line.text);
  if (!parsed) {
    return refuse_message(
        {RpcCode::parse_error, find_id(line.head, line.tail), "Parse error: " + parsed.error().message});
  }
  const auto document = std::make_shared<wire::Document>(std::move(*parsed));
  const Value root = document->root();
  if (!root.is_array()) return handle_message(document, root, nullptr);
  if (revision_ != kBatchRevision || root.size() == 0 || root.size() > kMaxBatch) {
    return refuse("null", RpcCode::invalid_request, "Invalid request: no batch of messages is accepted here");
  }
  handle_batch(document, root);
}

void Server::handle_batch(const std::shared_ptr<wire::Document>& document, Value messages) {
  const auto batch = std::make_shared<Batch>();
  ++batch->awaited;  // this very loop: nothing is sent before all are looked at
  for (const Value item : messages.items()) handle_message(document, item, batch);
  settle(*batch);
}

void Server::settle(Batch& batch) {
  if (--batch.awaited > 0 || batch.answers.empty()) return;
  output_.append(batch.answers.view());
  output_.append("]\n");
}

void Server::handle_message(const std::shared_ptr<wire::Document>& document, Value value,
                            const std::shared_ptr<Batch>& batch) {
  const auto read = read_message(value);
  if (const auto* fault = std::get_if<RpcFault>(&read)) return refuse_message(*fault, batch);
  const RpcMessage& message = std::get<RpcMessage>(read);
  switch (message.kind) {
    case RpcMessage::Kind::notification:
      return handle_notification(message);
    case RpcMessage::Kind::response:
      return;  // we ask for nothing
    case RpcMessage::Kind::request:
      break;
  }
  if (is_in_flight(message.id)) {
    return refuse_message({RpcCode::invalid_request, message.id, "Invalid request: this id is in flight already"},
                          batch);
  }
  if (batch) {
    ++batch->awaited;
    batched_.emplace(message.id, batch);
  }
  handle_request(document, message);
}

void Server::send(const std::string& id, const std::function<void(Bytes&)>& write) {
  const auto found = batched_.find(id);
  if (found == batched_.end()) {
    write(output_);
    output_.push_back('\n');
    return;
  }
  const std::shared_ptr<Batch> batch = found->second;
  batched_.erase(found);
  add(*batch, write);
  settle(*batch);
}

void Server::add(Batch& batch, const std::function<void(Bytes&)>& write) {
  batch.answers.push_back(batch.answers.empty() ? '[' : ',');
  write(batch.answers);
}

void Server::answer(const std::string& id, const std::function<void(JsonWriter&)>& members) {
  send(id, [&](Bytes& out) { write_result(out, id, members); });
}

void Server::refuse(const std::string& id, RpcCode code, std::string message) {
  send(id, [&](Bytes& out) { write_fault(out, {code, id, std::move(message)}); });
}

void Server::refuse_message(RpcFault fault, const std::shared_ptr<Batch>& batch) {
  // Whoever waits for the first of that id would take this for its answer.
  if (is_in_flight(fault.id)) fault.id = "null";
  const auto write = [&](Bytes& out) { write_fault(out, fault); };
  if (batch) return add(*batch, write);
  write(output_);
  output_.push_back('\n');
}

// ---- methods ----

void Server::handle_request(const std::shared_ptr<wire::Document>& document, const RpcMessage& request) {
  if (request.method == "initialize") return initialize(request);
  if (request.method == "ping") return answer(request.id, {});
  const bool is_tool_method = request.method == "tools/list" || request.method == "tools/call";
  if (!is_tool_method) return refuse(request.id, RpcCode::method_not_found, "Method not found");
  if (revision_.empty()) return refuse(request.id, RpcCode::invalid_request, "Invalid request: initialize first");
  if (request.method == "tools/list") return list_tools(request);
  call_tool(document, request);
}

void Server::handle_notification(const RpcMessage& notification) {
  if (notification.method != "notifications/cancelled") return;  // others need nothing done
  const Value id = notification.params.get("requestId");
  const auto found = id ? calls_.find(id.to_json()) : calls_.end();
  if (found == calls_.end()) return;  // answered meanwhile
  const std::shared_ptr<ToolCall> call = found->second;
  calls_.erase(found);
  call->server_ = nullptr;
  if (const auto batched = batched_.find(call->id_); batched != batched_.end()) {
    const std::shared_ptr<Batch> batch = batched->second;
    batched_.erase(batched);
    settle(*batch);
  }
  if (const auto work = std::exchange(call->on_cancel_, nullptr)) work();
}

void Server::initialize(const RpcMessage& request) {
  const Value version = request.params.get("protocolVersion");
  if (!version) return refuse(request.id, RpcCode::invalid_params, "Invalid params: protocolVersion is missing");
  const auto wanted = version.as_string();
  if (!wanted) return refuse(request.id, RpcCode::invalid_params, "Invalid params: protocolVersion must be a string");
  if (!revision_.empty()) {
    return refuse(request.id, RpcCode::invalid_request, "Invalid request: the session is initialized already");
  }
  const bool is_known = std::find(kRevisions.begin(), kRevisions.end(), *wanted) != kRevisions.end();
  revision_ = is_known ? *wanted : kRevisions.front();
  answer(request.id, [&](JsonWriter& json) {
    json.member("protocolVersion", revision_).key("capabilities").raw(R"({"tools":{"listChanged":false}})");
    json.key("serverInfo").begin_object().member("name", options_.name);
    if (has_structured_content()) json.member("title", options_.title);
    json.member("version", options_.version).end_object().member("instructions", options_.instructions);
  });
}

void Server::list_tools(const RpcMessage& request) {
  const std::vector<Tool>& tools = tools_.list();
  std::size_t first = 0;
  if (const Value cursor = request.params.get("cursor")) {
    const std::string_view text = cursor.as_string().value_or("");
    const auto read = std::from_chars(text.data(), text.data() + text.size(), first);
    if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size() || first >= tools.size()) {
      return refuse(request.id, RpcCode::invalid_params, "Invalid params: the cursor is none of ours");
    }
  }
  const std::size_t last = std::min(tools.size(), first + options_.tools_per_page);
  answer(request.id, [&](JsonWriter& json) {
    json.key("tools").begin_array();
    for (std::size_t i = first; i < last; ++i) write_tool(json, tools[i], has_structured_content());
    json.end_array();
    if (last < tools.size()) json.member("nextCursor", std::to_string(last));
  });
}

void Server::call_tool(const std::shared_ptr<wire::Document>& document, const RpcMessage& request) {
  const Value named = request.params.get("name");
  const auto name = named.as_string();
  const Value arguments = request.params.get("arguments"), token = request.params.get("_meta").get("progressToken");
  if (!named) return refuse(request.id, RpcCode::invalid_params, "Invalid params: name is missing");
  if (!name) return refuse(request.id, RpcCode::invalid_params, "Invalid params: name must be a string");
  if (arguments && !arguments.is_object()) {
    return refuse(request.id, RpcCode::invalid_params, "Invalid params: arguments must be an object");
  }
  if (token && !token.is_string() && !token.as_int()) {
    return refuse(request.id, RpcCode::invalid_params, "Invalid params: a progressToken is a string or an integer");
  }
  const std::vector<Tool>& tools = tools_.list();
  if (std::none_of(tools.begin(), tools.end(), [&](const Tool& tool) { return tool.name == *name; })) {
    return refuse(request.id, RpcCode::invalid_params, "Invalid params: no such tool; see tools/list");
  }
  if (calls_.size() >= kMaxCalls) {
    return refuse(request.id, RpcCode::busy, "Too many calls in flight; wait for some to be answered");
  }
  const auto call = std::make_shared<ToolCall>(*this, document, request);
  calls_.emplace(request.id, call);
  tools_.call(call);
}

}  // namespace sallyport::mcp

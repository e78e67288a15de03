#include "mcp/rpc.h"

#include "mcp/limits.h"

namespace sallyport::mcp {
namespace {

using wire::JsonWriter;
using wire::Value;

bool is_id(Value id) {
  if (const auto text = id.as_string()) return text->size() <= kMaxIdBytes;
  return id.as_int().has_value();
}

bool is_known_member(std::string_view name) {
  return name == "jsonrpc" || name == "id" || name == "method" || name == "params" || name == "result" ||
         name == "error";
}

}  // namespace

std::variant<RpcMessage, RpcFault> read_message(Value value) {
  RpcFault fault;
  const auto refuse = [&](std::string why) {
    fault.message = "Invalid request: " + std::move(why);
    return fault;
  };
  if (!value.is_object()) return refuse("a message is an object");
  RpcMessage message;
  const Value id = value.get("id"), method = value.get("method"), params = value.get("params");
  if (id) {
    if (!is_id(id)) return refuse("the id must be a string or an integer");
    message.id = id.to_json();
    fault.id = message.id;
  }
  if (value.get("jsonrpc").as_string() != "2.0") return refuse("jsonrpc must be \"2.0\"");
  for (const auto& [name, member] : value.members()) {
    if (!is_known_member(name)) return refuse("an unknown member beside jsonrpc, id, method and params");
  }
  const bool has_answer = value.get("result").exists() != value.get("error").exists();
  if (!method) {
    if (!id || !has_answer || params) return refuse("neither a request nor a response");
    message.kind = RpcMessage::Kind::response;
    return message;
  }
  if (value.get("result") || value.get("error")) return refuse("a request carries no result");
  if (!method.is_string()) return refuse("the method must be a string");
  if (params && !params.is_object()) return refuse("params must be an object");
  message.kind = id ? RpcMessage::Kind::request : RpcMessage::Kind::notification;
  message.method = *method.as_string();
  message.params = params;
  return message;
}

void write_result(Bytes& out, std::string_view id, const std::function<void(JsonWriter&)>& members) {
  JsonWriter json(out);
  json.begin_object().member("jsonrpc", "2.0").key("id").raw(id).key("result").begin_object();
  if (members) members(json);
  json.end_object().end_object();
}

void write_fault(Bytes& out, const RpcFault& fault) {
  JsonWriter json(out);
  json.begin_object().member("jsonrpc", "2.0").key("id").raw(fault.id).key("error").begin_object();
  json.member("code", static_cast<int>(fault.code)).member("message", fault.message).end_object().end_object();
}

void write_notification(Bytes& out, std::string_view method, const std::function<void(JsonWriter&)>& members) {
  JsonWriter json(out);
  json.begin_object().member("jsonrpc", "2.0").member("method", method).key("params").begin_object();
  members(json);
  json.end_object().end_object();
}

}  // namespace sallyport::mcp

// JSON-RPC 2.0 as MCP uses it: what a parsed line is, and how answers are written. No I/O.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "base/bytes.h"
#include "wire/json.h"

namespace sallyport::mcp {

// The codes that JSON-RPC reserves.
enum class RpcCode : int {
  parse_error = -32700,
  invalid_request = -32600,
  method_not_found = -32601,
  invalid_params = -32602,
  internal_error = -32603,
  busy = -32000,
};

struct RpcMessage {
  enum class Kind : std::uint8_t { request, notification, response };
  Kind kind = Kind::request;
  std::string id;           // as JSON text: "a" and 1 differ
  std::string_view method;  // valid as long as the document
  wire::Value params;       // an object, or absent
};

// What could not be accepted, and whom to tell: the id's JSON text, or "null".
struct RpcFault {
  RpcCode code = RpcCode::invalid_request;
  std::string id = "null";
  std::string message;
};

// Strict: "jsonrpc" must be "2.0", an id a string or an integer, params an object, and there are no
// other members.
std::variant<RpcMessage, RpcFault> read_message(wire::Value value);

// The id, as JSON text, of a message that cannot be parsed, given both its ends (which may be all of it): whoever
// sent it would wait for an answer for ever. "null" where it is not found for certain: an id that is neither among the
// first members nor the last one, or no plain string or integer.
std::string find_id(std::string_view head, std::string_view tail);

// Each appends one message without a newline.
void write_result(Bytes& out, std::string_view id, const std::function<void(wire::JsonWriter&)>& members);
void write_fault(Bytes& out, const RpcFault& fault);
void write_notification(Bytes& out, std::string_view method, const std::function<void(wire::JsonWriter&)>& members);

}  // namespace sallyport::mcp

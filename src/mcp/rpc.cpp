#include "mcp/rpc.h"

#include <algorithm>
#include <charconv>

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

constexpr std::string_view kSpaces = " \t\r\n", kNone = "null";

std::string_view without_spaces(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// The text itself if it is an id that can be written as it stands.
std::string plain_id(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    const std::string_view inner = text.substr(1, text.size() - 2);
    const bool is_plain =
        std::all_of(inner.begin(), inner.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
    return std::string(is_plain && inner.size() <= kMaxIdBytes ? text : kNone);
  }
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && std::to_string(number) == text ? std::to_string(number) : std::string(kNone);
}

// Walks over the members of an object, value by value, without looking into them.
class Members {
 public:
  explicit Members(std::string_view text) : left_(text) {}

  // The next member's name and value as they are written; false at the end or at what is no member.
  bool next(std::string_view& name, std::string_view& value) {
    if (!take(is_first_ ? '{' : ',')) return false;
    is_first_ = false;
    name = without_spaces(until_one_of(":"));
    if (!take(':')) return false;
    value = without_spaces(until_one_of(",}"));
    return !left_.empty();  // else it may go on where the text was cut
  }

 private:
  bool take(char wanted) {
    left_.remove_prefix(std::min(left_.find_first_not_of(kSpaces), left_.size()));
    if (left_.empty() || left_.front() != wanted) return false;
    left_.remove_prefix(1);
    return true;
  }

  // Up to one of these characters outside of strings and of nested values.
  std::string_view until_one_of(std::string_view ends) {
    std::size_t depth = 0, at = 0;
    bool is_string = false;
    for (; at < left_.size(); ++at) {
      const char c = left_[at];
      if (is_string && c == '\\') {
        ++at;
      } else if (c == '"') {
        is_string = !is_string;
      } else if (!is_string && depth == 0 && ends.find(c) != std::string_view::npos) {
        break;
      } else if (!is_string && (c == '{' || c == '[')) {
        ++depth;
      } else if (!is_string && (c == '}' || c == ']') && depth > 0) {
        --depth;
      }
    }
    const std::string_view taken = left_.substr(0, at);
    left_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view left_;
  bool is_first_ = true;
};

// Of a last member `"id": 7}`: the brace that ends the text is the object's own, so this is its member.
std::string last_member_id(std::string_view text) {
  text = without_spaces(text);
  if (!text.ends_with('}')) return std::string(kNone);
  text = without_spaces(text.substr(0, text.size() - 1));
  const bool is_string = text.ends_with('"');
  const std::size_t value = is_string ? text.rfind('"', text.size() - 2) : text.find_last_not_of("-0123456789") + 1;
  if (value == std::string_view::npos || text.size() < 2) return std::string(kNone);
  const std::string id = plain_id(text.substr(value));
  text = without_spaces(text.substr(0, value));
  if (!text.ends_with(':')) return std::string(kNone);
  text = without_spaces(text.substr(0, text.size() - 1));
  if (!text.ends_with(R"("id")")) return std::string(kNone);
  text = without_spaces(text.substr(0, text.size() - 4));
  return text.ends_with(',') || text.ends_with('{') ? id : std::string(kNone);
}

}  // namespace

std::string find_id(std::string_view head, std::string_view tail) {
  Members members(head);
  for (std::string_view name, value; members.next(name, value);) {
    if (name == R"("id")") return plain_id(value);
  }
  return last_member_id(tail);
}

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

#include "wire/message.h"

#include <algorithm>
#include <array>

namespace sallyport::wire {
namespace {

Error invalid(std::string message) { return Error::make(Code::invalid_request, std::move(message)); }

// Printable ASCII: names go into logs, file names and tables as they are.
bool is_name(std::string_view text, std::size_t most) {
  if (text.empty() || text.size() > most) return false;
  for (const char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

Status read_id(Message& message, Value value) {
  const auto text = value.as_string();
  if (!text || !is_name(*text, kMaxIdBytes)) {
    return invalid("id must be a string of 1 to 128 printable characters");
  }
  message.id = *text;
  return ok();
}

Status read_type(Message& message, Value value) {
  const auto text = value.as_string();
  if (text == "request") {
    message.type = MessageType::request;
  } else if (text == "response") {
    message.type = MessageType::response;
  } else if (text == "event") {
    message.type = MessageType::event;
  } else {
    return invalid("type must be request, response or event");
  }
  return ok();
}

Status read_method(Message& message, Value value) {
  const auto text = value.as_string();
  if (!text || !is_name(*text, kMaxMethodBytes)) {
    return invalid("method must be a string of 1 to 128 printable characters");
  }
  message.method = *text;
  return ok();
}

Status read_params(Message& message, Value value) {
  if (!value.is_object()) return invalid("params must be an object");
  message.params = value;
  return ok();
}

Status read_result(Message& message, Value value) {
  message.result = value;
  return ok();
}

Status read_error_field(Message& message, Value value) {
  message.error = ErrorBox(read_error(value));
  return ok();
}

Status read_deadline(Message& message, Value value) {
  const auto number = value.as_int();
  if (!number || *number < 1 || *number > kMaxDeadlineMs) {
    return invalid("deadline_ms must be an integer from 1 to " + std::to_string(kMaxDeadlineMs));
  }
  message.deadline_ms = static_cast<std::uint32_t>(*number);
  return ok();
}

Status read_token(Message& message, Value value) {
  const auto text = value.as_string();
  if (!text || !is_name(*text, kMaxTokenBytes)) return invalid("token must be a string of printable characters");
  message.token = *text;
  return ok();
}

// The closed set of top-level fields, and which types of message may carry each.
struct Field {
  std::string_view name;
  Status (*read)(Message&, Value);
  bool in_request, in_response, in_event;
};
constexpr std::array<Field, 8> kFields = {{
    {"id", read_id, true, true, true},
    {"type", read_type, true, true, true},
    {"method", read_method, true, false, true},
    {"params", read_params, true, false, true},
    {"result", read_result, false, true, false},
    {"error", read_error_field, false, true, false},
    {"deadline_ms", read_deadline, true, false, false},
    {"token", read_token, true, false, false},
}};

// Its size and first letter say which one it can be.
std::size_t field_of(std::string_view name) {
  std::size_t i = kFields.size();
  switch (name.size()) {
    case 2:
      i = 0;
      break;
    case 4:
      i = 1;
      break;
    case 5:
      i = name[0] == 'e' ? 5 : 7;
      break;
    case 6:
      i = name[0] == 'm' ? 2 : name[0] == 'p' ? 3 : 4;
      break;
    case 11:
      i = 6;
      break;
    default:
      return i;
  }
  return kFields.at(i).name == name ? i : kFields.size();
}

bool belongs(const Field& field, MessageType type) {
  return type == MessageType::request    ? field.in_request
         : type == MessageType::response ? field.in_response
                                         : field.in_event;
}

Status read_fields(Message& message, Value root) {
  unsigned seen = 0;
  for (const auto& [name, value] : root.members()) {
    const std::size_t i = field_of(name);
    if (i == kFields.size()) return invalid("unknown field in the message");
    seen |= 1U << i;
    // A response to what could not be read carries a null id.
    if (i == 0 && value.is_null()) continue;
    TRY(kFields.at(i).read(message, value));
  }
  if ((seen & 2U) == 0) return invalid("type is missing");
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    if ((seen & (1U << i)) != 0 && !belongs(kFields.at(i), message.type)) {
      return invalid(std::string(kFields.at(i).name) + " does not belong in this type of message");
    }
  }
  return ok();
}

Status check_required(const Message& message) {
  switch (message.type) {
    case MessageType::request:
      if (message.id.empty()) return invalid("id is missing");
      if (message.method.empty()) return invalid("method is missing");
      break;
    case MessageType::response:
      if (message.result.exists() == static_cast<bool>(message.error)) {
        return invalid("a response carries either a result or an error");
      }
      if (message.id.empty() && !message.error) return invalid("id is missing");
      break;
    case MessageType::event:
      if (message.method.empty()) return invalid("method is missing");
      break;
  }
  return ok();
}

}  // namespace

MessageResult decode_message(Decoder& decoder, ByteView body, Keep keep) {
  Findings findings;
  auto document = decoder.parse(body, &findings, keep);
  if (!document) return Malformed{{}, std::move(document).error()};

  MessageResult result{Message()};
  Message& message = *result;
  message.document = std::move(*document);
  message.bytes = body.size();
  message.streams = std::move(findings.streams);
  const Value root = message.document.root();
  if (!root.is_object()) return Malformed{{}, Error::make(Code::protocol_error, "a message is a JSON object")};
  auto status = read_fields(message, root);
  if (status) status = check_required(message);
  if (!status) {
    // Whatever else is wrong, answer to the id if there is a usable one.
    Message named;
    const std::string id = read_id(named, root.get("id")) ? std::string(named.id) : "";
    return Malformed{id, std::move(status).error()};
  }
  return result;
}

Status append_request(Bytes& out, const RequestHead& head, std::string_view params) {
  FrameBuilder frame(out);
  JsonWriter json(out);
  json.verbatim(R"({"id":)").value(head.id).verbatim(R"(,"type":"request","method":)").value(head.method);
  if (!params.empty()) json.verbatim(R"(,"params":)").raw(params);
  if (head.deadline_ms) json.verbatim(R"(,"deadline_ms":)").value(*head.deadline_ms);
  if (!head.token.empty()) json.member("token", head.token);
  json.end_object();
  return frame.finish();
}

Status append_result(Bytes& out, std::string_view id, std::string_view result) {
  ResultFrame frame(out, id);
  frame.json().raw(result);
  return frame.finish();
}

void append_error(Bytes& out, std::string_view id, const Error& error) {
  FrameBuilder frame(out);
  JsonWriter json(out);
  json.begin_object().key("id");
  if (id.empty()) {
    json.null();
  } else {
    json.value(id);
  }
  json.member("type", "response").key("error");
  write_error(json, error);
  json.end_object();
  if (frame.finish()) return;
  // An id longer than any peer's cannot be an answer to anything.
  append_error(out, id.size() <= kMaxIdBytes ? id : "", Error::make(error.code, "the error is too large to describe"));
}

Status append_event(Bytes& out, std::string_view id, std::string_view method, std::string_view params) {
  FrameBuilder frame(out);
  JsonWriter json(out);
  json.begin_object();
  if (!id.empty()) json.member("id", id);
  json.member("type", "event").member("method", method);
  if (!params.empty()) json.key("params").raw(params);
  json.end_object();
  return frame.finish();
}

ResultFrame::ResultFrame(Bytes& out, std::string_view id) : frame_(out), writer_(out) {
  writer_.verbatim(R"({"id":)").value(id).verbatim(R"(,"type":"response","result":)");
}

Status ResultFrame::finish() {
  writer_.end_object();
  return frame_.finish();
}

void write_error(JsonWriter& json, const Error& error) {
  json.begin_object()
      .member("code", to_string(error.code))
      .member("message", error.message)
      .member("retryable", error.retryable);
  if (!error.details_json.empty()) json.key("details").raw(error.details_json);
  json.end_object();
}

Error read_error(Value error) {
  const auto name = error.get("code").as_string();
  const auto code = name ? code_from_string(*name) : std::nullopt;
  if (!code) return Error::make(Code::internal_error, "the peer sent an error without a known code");
  Error read = Error::make(*code, std::string(error.get("message").as_string().value_or("")));
  read.retryable = error.get("retryable").as_bool().value_or(false);
  if (error.get("details").is_object()) read.details_json = error.get("details").to_json();
  return read;
}

}  // namespace sallyport::wire

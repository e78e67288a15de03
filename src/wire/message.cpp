#include "wire/message.h"

namespace sallyport::wire {

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

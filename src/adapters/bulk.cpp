#include "adapters/bulk.h"

#include "base/utf8.h"
#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

Fire send_all(std::shared_ptr<ipc::OutStream> to, std::string bytes) {
  const Status sent = co_await to->write(as_bytes(bytes));
  if (sent) to->finish();
}

}  // namespace

Task<Result<std::string>> take_value(ipc::Call& call, wire::Value value, std::size_t most) {
  if (const auto text = value.as_string()) co_return std::string(*text);
  CO_TRY(const auto stream, call.take_stream(value, "params.value"));
  std::string bytes;
  for (;;) {
    CO_TRY(const Bytes piece, co_await stream->read());
    if (piece.empty()) co_return bytes;
    if (bytes.size() + piece.size() > most) {
      co_return Error::make(Code::payload_too_large, "the stream brings more than was said");
    }
    bytes.append(as_text(piece.view()));
  }
}

ipc::Reply reply_with_stream(ipc::Call& call, std::string_view name, std::string bytes,
                             const std::function<void(wire::JsonWriter&)>& fill) {
  auto stream = call.open_stream();
  if (!stream) return std::move(stream).error();
  call.after_reply([to = *stream, bytes = std::move(bytes)]() mutable { send_all(to, std::move(bytes)); });
  return call.result([&](wire::JsonWriter& json) {
    json.begin_object();
    fill(json);
    json.key(name).begin_object().member("$stream", (*stream)->number()).end_object().end_object();
  });
}

ipc::Reply reply_with_value(ipc::Call& call, std::string_view name, std::string bytes,
                            const std::function<void(wire::JsonWriter&)>& fill) {
  if (bytes.size() > platform::kInlineBytes || !is_utf8(bytes)) {
    return reply_with_stream(call, name, std::move(bytes), fill);
  }
  return call.result([&](wire::JsonWriter& json) {
    json.begin_object();
    fill(json);
    json.member(name, bytes).end_object();
  });
}

}  // namespace sallyport::adapters

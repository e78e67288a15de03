#include "adapters/bulk.h"

#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

Fire send_all(std::shared_ptr<ipc::OutStream> to, std::string bytes) {
  const Status sent = co_await to->write(as_bytes(bytes));
  if (sent) to->finish();
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at < end) {
    if (*at < 0x80) {
      ++at;
      continue;
    }
    const int more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : 1;
    if (*at < 0xc2 || *at > 0xf4 || end - at <= more) return false;
    std::uint32_t point = *at & (0x3fU >> more);
    for (int i = 1; i <= more; ++i) {
      if ((at[i] & 0xc0) != 0x80) return false;
      point = (point << 6) | (at[i] & 0x3fU);
    }
    const std::uint32_t least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return false;
    at += more + 1;
  }
  return true;
}

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

// Whatever message is accepted is written again and read as the same message.
#include <cstdlib>
#include <string>

#include "wire/message.h"

namespace {

using namespace sallyport;

void demand(bool holds) {
  if (!holds) std::abort();
}

bool is_plain(std::string_view name, std::size_t most) {
  for (const char c : name) {
    if (c <= ' ' || c > '~') return false;
  }
  return name.size() <= most;
}

void encode(wire::Message& message, Bytes& out) {
  const std::string params = message.params ? message.params.to_json() : "";
  switch (message.type) {
    case wire::MessageType::request:
      demand(bool(wire::append_request(out, {message.id, message.method, message.deadline_ms, message.token}, params)));
      return;
    case wire::MessageType::event:
      demand(bool(wire::append_event(out, message.id, message.method, params)));
      return;
    case wire::MessageType::response:
      if (message.error) return wire::append_error(out, message.id, *message.error);
      demand(bool(wire::append_result(out, message.id, message.result.to_json())));
      return;
  }
}

void compare(wire::Message& first, wire::Message& second) {
  demand(first.type == second.type && first.id == second.id && first.method == second.method);
  demand(first.deadline_ms == second.deadline_ms && first.token == second.token);
  demand(first.params.exists() == second.params.exists() && first.params.to_json() == second.params.to_json());
  demand(static_cast<bool>(first.error) == static_cast<bool>(second.error));
  if (first.error) {
    demand(first.error->code == second.error->code && first.error->message == second.error->message);
    demand(first.error->details_json == second.error->details_json);
    return;
  }
  demand(first.result.exists() == second.result.exists() && first.result.to_json() == second.result.to_json());
  demand(first.streams == second.streams);
}

void check(wire::Decoder& decoder, std::string_view text) {
  Bytes body;
  body.append(text);
  auto message = wire::decode_message(decoder, body.view());
  if (!message) {
    demand(is_plain(message.malformed().id, wire::kMaxIdBytes));
    // What is wrong can always be said.
    Bytes answer;
    wire::append_error(answer, message.malformed().id, message.malformed().error);
    demand(!answer.empty());
    return;
  }
  demand(is_plain(message->id, wire::kMaxIdBytes) && is_plain(message->method, wire::kMaxMethodBytes));
  auto kept = wire::decode_message(decoder, body.view(), wire::Keep::result);
  demand(bool(kept) && kept->streams == message->streams);
  if (const auto raw = kept->result.as_raw()) {
    auto document = decoder.parse(*raw);
    demand(document && document->root().to_json() == message->result.to_json());
  }
  Bytes out;
  encode(*message, out);
  wire::FrameReader reader;
  reader.feed(out.view());
  const auto frame = reader.next();
  demand(frame && *frame);
  auto again = wire::decode_message(decoder, **frame);
  demand(bool(again));
  compare(*message, *again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Escapes may make the text longer when it is written again: stay where it fits all the same.
  if (size > wire::kMaxFrameBytes / 8) return 0;
  wire::Decoder decoder;
  const std::string_view text = as_text({data, size});
  check(decoder, text);
  // The seeds are whole frames: their bodies count too.
  if (size > wire::kHeaderBytes) check(decoder, text.substr(wire::kHeaderBytes));
  return 0;
}

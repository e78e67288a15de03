// Whatever is accepted as a message says one signal, an id that can be a file's name or none, and a payload
// that is an object or absent; what is refused has an id that is safe to answer to, or none.
#include <cstdlib>
#include <string>

#include "mailbox/message.h"

using namespace sallyport;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static wire::Decoder decoder;
  Bytes padded;
  padded.reserve(size + 1);
  padded.append(data, size);
  auto parsed = mailbox::parse_message(decoder, padded.view());
  if (const auto* bad = std::get_if<mailbox::Malformed>(&parsed)) {
    demand(bad->request_id.empty() || mailbox::is_request_id(bad->request_id));
    demand(!bad->error.message.empty());
    return 0;
  }
  auto& message = std::get<mailbox::Message>(parsed);
  demand(mailbox::is_signal_name(message.signal));
  demand(message.request_id.empty() || mailbox::is_request_id(message.request_id));
  demand(!message.payload || message.payload.is_object());
  decoder.recycle(std::move(message.document));
  return 0;
}

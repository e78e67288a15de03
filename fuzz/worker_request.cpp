// The request decoder: a body of any bytes gets an answer that fits a frame, whatever method it names.
// The worker's directory is deleted while it is held open: nothing can be made in it.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "wire/wire.h"
#include "worker/service.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  using namespace sallyport::worker;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  static const Service kService = [] {
    std::string directory = "/tmp/sallyport-fuzz-XXXXXX";
    if (::mkdtemp(directory.data()) == nullptr) std::abort();
    auto roots = Roots::open({directory});
    ::rmdir(directory.c_str());  // stays open, and leaves nothing behind
    if (!roots) std::abort();
    return Service(*std::move(roots));
  }();
  static wire::Decoder decoder;

  Bytes body;
  body.append(data, size);
  auto message = wire::decode_message(decoder, body.view());
  // A body that is no message may still be parameters: then every method gets them.
  const auto call = [&](std::string_view method, wire::Value params) {
    Bytes out;
    wire::JsonWriter json(out);
    Stop stop;
    const auto done = kService.handle(method, {params, stop, json, nullptr});
    if (!done)
      demand(done.error().code != Code::internal_error);
    else
      demand(out.size() < wire::kMaxFrameBytes && decoder.parse(as_text(out.view())));
  };
  if (message) {
    if (message->type == wire::MessageType::request) call(message->method, message->params);
    return 0;
  }
  const auto params = decoder.parse(as_text({data, size}));
  if (!params || !params->root().is_object()) return 0;
  for (const Method& method : Service::methods()) call(method.name, params->root());
  return 0;
}

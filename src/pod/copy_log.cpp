#include <deque>

#include "pod/attach.h"
#include "pod/display.h"
#include "pod/methods.h"

namespace sallyport::pod {

Result<std::uint64_t> copy_log(Client& client, bool follows, int out) {
  struct Next {
    std::uint32_t stream = 0;  // none: that was all
    std::uint64_t offset = 0;
  };
  std::deque<Next> streams;
  std::uint64_t skipped = 0;
  client.on_event([&](const wire::Message& event) {
    if (event.method == "pod.gap") {
      skipped += event.params.get("skipped").as_uint().value_or(0);
      streams.push_back({stream_in(event.params.get("output")), event.params.get("offset").as_uint().value_or(0)});
    }
    if (event.method == "pod.exit") streams.push_back({});
  });
  TRY(const Answer answer, client.call("pod.log", follows ? "{\"follow\":true}" : "{}"));
  std::uint32_t stream = stream_in(answer.value().get("output"));
  std::uint64_t position = answer.value().get("offset").as_uint().value_or(0);
  const std::uint64_t end = position + answer.value().get("bytes").as_uint().value_or(0);
  Display display(out);
  while (stream != 0) {
    auto piece = client.read_stream(stream, Millis(60'000));
    if (!piece && piece.error().code == Code::timeout) continue;
    if (!piece) return std::move(piece).error();
    if (!piece->empty()) {
      position += piece->size();
      TRY(display.write(piece->view()));
      continue;
    }
    // A stream that ends before that is followed by another, behind a gap.
    if (!follows && position >= end) return skipped;
    while (streams.empty()) TRY(client.dispatch(Millis(60'000)));
    stream = streams.front().stream;
    position = streams.front().offset;
    streams.pop_front();
    if (stream != 0) TRY(display.skip());
  }
  return skipped;
}

}  // namespace sallyport::pod

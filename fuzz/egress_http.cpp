// HTTP heads and bodies: what is accepted is read the same however it is split, and goes on unambiguous.
#include <cstdlib>
#include <string>

#include "egress/http_body.h"
#include "egress/http_head.h"

namespace {

using namespace sallyport;

void demand(bool holds) {
  if (!holds) std::abort();
}

void check_request(std::string_view bytes) {
  const auto head = egress::parse_request_head(bytes);
  if (!head || !*head) return;
  demand((*head)->bytes <= bytes.size());
  for (const std::size_t cut : {(*head)->bytes - 1, (*head)->bytes / 2}) {
    const auto part = egress::parse_request_head(bytes.substr(0, cut));
    demand(part && !*part);  // nothing that is good in the end is bad on the way
  }
  if ((*head)->is_connect) return;
  // What goes to the server, read again as a request of the same kind, has one framing: the same.
  std::string again = egress::to_origin(**head);
  again.insert((*head)->method.size() + 1, "http://" + (*head)->host + ":" + std::to_string((*head)->port));
  const auto second = egress::parse_request_head(again);
  demand(second && *second);
  demand((*second)->framing.kind == (*head)->framing.kind && (*second)->framing.length == (*head)->framing.length);
  demand((*second)->path == (*head)->path && (*second)->bytes == again.size());
}

void check_response(std::string_view bytes) {
  const auto head = egress::parse_response_head(bytes);
  if (!head || !*head) return;
  const std::string passed = egress::to_client(**head, true);
  const auto again = egress::parse_response_head(passed);
  demand(again && *again && (*again)->status == (*head)->status && (*again)->framing.kind == (*head)->framing.kind);
}

void check_body(std::string_view bytes, egress::BodyOf of) {
  egress::BodyReader whole({egress::Framing::Kind::chunked, 0}, of);
  const auto count = whole.feed(bytes);
  egress::BodyReader single({egress::Framing::Kind::chunked, 0}, of);
  std::size_t fed = 0;
  bool is_good = true;
  while (fed < bytes.size() && is_good && !single.is_done()) {
    const auto one = single.feed(bytes.substr(fed, 1));
    is_good = one.has_value();
    fed += is_good ? *one : 0;
  }
  demand(is_good == count.has_value() && single.is_done() == whole.is_done());
  if (count) demand(*count == fed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = as_text({data, size});
  check_request(bytes);
  check_response(bytes);
  check_body(bytes, egress::BodyOf::request);
  check_body(bytes, egress::BodyOf::response);
  return 0;
}

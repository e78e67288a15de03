#include "pod/link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "os/peer.h"
#include "os/sockets.h"

namespace sallyport::pod {
namespace {

Error not_the_pod(std::string detail) {
  return Error::make(Code::unauthenticated, "whoever listens at the pod's address is not the pod", std::move(detail));
}

// The client's side of the handshake, a frame at a time, never reading past it.
Task<Result<UniqueFd>> prove(ipc::Loop& loop, UniqueFd connection, Record record) {
  ::fcntl(connection.get(), F_SETFL, O_NONBLOCK);
  UniqueFd proven{::fcntl(connection.get(), F_DUPFD_CLOEXEC, 3)};
  CO_TRY(const auto watch, ipc::Watch::open(loop, std::move(connection)));
  wire::Nonce nonce;
  fill_random(nonce);
  wire::HandshakeClient handshake(record.token, record.binding, nonce);
  Bytes out;
  handshake.start(out);
  if (::send(watch->fd(), out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) {
    co_return not_the_pod("it hung up");
  }
  const auto timer = loop.after(wire::kHandshakeTimeout, [&watch] { watch->cancel(); });
  wire::FrameReader reader;
  std::optional<Error> failure;
  for (bool is_done = false; !is_done && !failure;) {
    const bool is_ready = co_await watch->readable();
    if (!is_ready) {
      failure = not_the_pod("no proof in time");
      break;
    }
    std::uint8_t byte = 0;  // a handshake is some hundred bytes: one at a time keeps what follows in the socket
    const ssize_t count = ::recv(watch->fd(), &byte, 1, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) {
      failure = not_the_pod("it hung up");
      break;
    }
    reader.feed({&byte, 1});
    const auto frame = reader.next();
    if (!frame) failure = frame.error();
    if (!frame || !*frame) continue;
    out.clear();
    if (const Status proof = handshake.receive(**frame, out); !proof) {
      failure = not_the_pod(proof.error().describe());
    } else if (::send(watch->fd(), out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) {
      failure = not_the_pod("it hung up");
    }
    is_done = true;
  }
  loop.cancel(timer);
  if (failure) co_return std::move(*failure);
  co_return std::move(proven);
}

std::uint32_t stream_in(wire::Value value) {
  return static_cast<std::uint32_t>(value.get("$stream").as_int().value_or(0));
}

void write_stream(wire::JsonWriter& json, std::string_view key, std::uint32_t number) {
  json.key(key).begin_object().member("$stream", number).end_object();
}

}  // namespace

Task<Result<std::shared_ptr<ipc::Session>>> connect_session(ipc::Sessions& sessions, Record record) {
  UniqueFd connection;
  if (record.is_tcp()) {
    CO_TRY(connection, os::connect_loopback(record.address));
    CO_TRY(connection, co_await prove(sessions.loop(), std::move(connection), record));
  } else {
    CO_TRY(connection, os::connect_own_unix(record.address));
    const auto peer = os::identify_peer(connection.get());
    if (!peer || peer->identity.uid != ::geteuid() ||
        static_cast<std::uint64_t>(peer->identity.pid) != record.binding.pid) {
      co_return not_the_pod(peer ? "pid " + std::to_string(peer->identity.pid) : peer.error().describe());
    }
    ::fcntl(connection.get(), F_SETFL, O_NONBLOCK);
  }
  CO_TRY(auto session,
         ipc::Session::open(sessions, std::move(connection), UniqueFd(), wire::Side::connecting, "pod/" + record.name));
  session->set_window(wire::kPodWindow);
  co_return session;
}

Link::Link(std::shared_ptr<ipc::Session> pod) : pod_(std::move(pod)) {
  pod_->on_event([this](const wire::Message& event) { take_event(event); });
  pod_->on_close([this] {
    for (const auto& [id, weak] : relays_) {
      if (const auto flow = weak.lock()) flow->has_notice->resolve(false);
    }
  });
  listen();
}

Link::~Link() {
  pod_->on_event({});
  pod_->close();
}

Fire Link::listen() {
  const auto pod = pod_;
  while (co_await pod->receive()) {
    while (const auto request = pod->next_request()) {
      pod->send_error(request->id, Error::make(Code::method_not_found, "no such method"));
    }
    pod->end_turn();
  }
  pod->close();
}

void vouch(ipc::Session& pod, const std::string& voucher) {
  const std::string params =
      wire::to_json([&](wire::JsonWriter& json) { json.begin_object().member("voucher", voucher).end_object(); });
  // Nothing depends on the answer: a pod that does not know it reports what it is asked.
  [[maybe_unused]] const auto asked = pod.request("pod.link", params, std::nullopt, [](Result<wire::Message>) {});
}

Task<Result<wire::Message>> Link::ask(ipc::Call* call, std::string_view method, std::string params) {
  const auto shot = std::make_shared<ipc::OneShot<Result<wire::Message>>>();
  CO_TRY(const std::string id, pod_->request(method, params, std::nullopt,
                                             [shot](Result<wire::Message> came) { shot->resolve(std::move(came)); }));
  if (call != nullptr) {
    call->on_cancel([shot, id, pod = pod_] {
      pod->send_event(id, "cancel", {});
      shot->resolve(Error::make(Code::cancelled, "the request ended"));
    });
  }
  Result<wire::Message> answer = co_await *shot;
  if (answer && answer->error) co_return std::move(*answer->error);
  co_return answer;
}

Task<ipc::Reply> Link::pass(ipc::Call& call) {
  const auto self = shared_from_this();
  auto answer = co_await ask(&call, call.message().method, call.params().to_json());
  if (!answer) co_return std::move(answer).error();
  co_return call.result([&](wire::JsonWriter& json) { json.value(answer->result); });
}

Task<ipc::Reply> Link::pass_streams(ipc::Call& call) {
  const auto self = shared_from_this();
  std::shared_ptr<ipc::InStream> typed;
  std::shared_ptr<ipc::OutStream> input;
  if (call.params().get("input")) {
    auto taken = call.take_stream(call.params().get("input"), "params.input");
    if (!taken) co_return std::move(taken).error();
    typed = std::move(*taken);
    auto opened = pod_->streams().open();
    if (!opened) co_return std::move(opened).error();
    input = std::move(*opened);
  }
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object();
    for (const auto& [key, value] : call.params().members()) {
      if (key != "input") json.key(key).value(value);
    }
    if (input) write_stream(json, "input", input->number());
    json.end_object();
  });
  const auto flow = std::make_shared<Relay>();
  flow->to = call.share_session();
  flow->id = call.message().id;
  flow->is_endless = call.message().method == "pod.attach" || call.params().get("follow").as_bool().value_or(false);
  const auto shot = std::make_shared<ipc::OneShot<Result<wire::Message>>>();
  // The stream is there only while its answer is being read, and events may follow in the same read.
  auto asked =
      pod_->request(call.message().method, params, std::nullopt, [shot, flow, pod = pod_](Result<wire::Message> came) {
        if (came && !came->error) flow->in = pod->streams().take(stream_in(came->result.get("output")));
        shot->resolve(std::move(came));
      });
  if (!asked) co_return std::move(asked).error();
  std::erase_if(relays_, [](const auto& each) { return each.second.expired(); });
  relays_[*asked] = flow;
  call.on_cancel([shot] { shot->resolve(Error::make(Code::cancelled, "the request ended")); });
  Result<wire::Message> answer = co_await *shot;
  if (!answer) co_return std::move(answer).error();
  if (answer->error) co_return std::move(*answer->error);
  if (!flow->in) co_return Error::make(Code::internal_error, "the pod answered without its output");
  flow->position = answer->result.get("offset").as_uint().value_or(0);
  flow->end = flow->position + answer->result.get("bytes").as_uint().value_or(0);
  auto out = call.open_stream();
  if (!out) co_return std::move(out).error();
  send_on(flow, std::move(*out));
  call.after_reply([flow, typed, input] {
    relay(flow);
    if (typed) ipc::relay(typed, input);
  });
  co_return call.result([&](wire::JsonWriter& json) {
    json.begin_object();
    for (const auto& [key, value] : answer->result.members()) {
      if (key == "output") continue;
      json.key(key).value(value);
    }
    write_stream(json, "output", flow->out->number());
    json.end_object();
  });
}

// Whoever asked and has enough of it resets the stream there: the pod is told, and nothing else of this link ends.
void Link::send_on(const std::shared_ptr<Relay>& flow, std::shared_ptr<ipc::OutStream> out) {
  out->set_endless(flow->is_endless);
  out->on_credit([weak = std::weak_ptr<Relay>(flow)] {
    const auto open = weak.lock();
    if (!open || !open->out->is_over()) return;
    open->in->fail(Error::make(Code::cancelled, "the stream is not wanted any more"));
  });
  flow->out = std::move(out);
}

void Link::take_event(const wire::Message& event) {
  const auto found = relays_.find(event.id);
  const auto flow = found == relays_.end() ? nullptr : found->second.lock();
  if (!flow) return;
  const std::string params = event.params.exists() ? event.params.to_json() : "{}";
  if (event.method != "pod.gap" && event.method != "pod.exit")
    return flow->to->send_latest(flow->id, event.method, params);
  Relay::Notice notice{std::string(event.method), params, nullptr};
  if (event.method == "pod.gap") {
    notice.next = pod_->streams().take(stream_in(event.params.get("output")));
    notice.offset = event.params.get("offset").as_uint().value_or(0);
    notice.skipped = event.params.get("skipped").as_uint().value_or(0);
    notice.repaint = event.params.get("repaint").as_uint().value_or(0);
    notice.is_interrupted = event.params.get("interrupted").as_bool().value_or(false);
  }
  // Nobody wants to see what came before an interrupt, least of all who does not read.
  if (notice.is_interrupted && !flow->notices.empty()) {
    const Relay::Notice& first = flow->notices.front();
    const std::uint64_t shown = first.offset - std::min(first.offset, first.skipped);
    notice.skipped = notice.offset - std::min(notice.offset, shown);
    flow->notices.clear();
  }
  flow->notices.push_back(std::move(notice));
  flow->has_notice->resolve(true);
}

Fire Link::relay(std::shared_ptr<Relay> flow) {
  for (;;) {
    for (;;) {
      auto piece = co_await flow->in->read();
      if (!piece) {
        flow->out->reset(piece.error());
        co_return;
      }
      if (piece->empty()) break;
      const Status written = co_await flow->out->write(piece->view());
      if (!written) co_return;
      flow->position += piece->size();
    }
    flow->out->finish();
    // Nothing follows all of a log: nobody would ever tell so.
    if (!flow->is_endless && flow->position >= flow->end) co_return;
    const auto has_notice = flow->has_notice;
    co_await *has_notice;
    if (flow->notices.empty()) co_return;
    Relay::Notice notice = std::move(flow->notices.front());
    flow->notices.pop_front();
    if (flow->notices.empty()) flow->has_notice = std::make_shared<ipc::OneShot<bool>>();
    if (!notice.next) {
      flow->to->send_event(flow->id, notice.method, notice.params);
      co_return;
    }
    auto out = flow->to->streams().open();
    if (!out) co_return;
    flow->in = std::move(notice.next);
    flow->position = notice.offset;
    send_on(flow, std::move(*out));
    flow->to->send_event(flow->id, notice.method, wire::to_json([&](wire::JsonWriter& json) {
                           json.begin_object().member("offset", notice.offset).member("skipped", notice.skipped);
                           json.member("repaint", notice.repaint).member("interrupted", notice.is_interrupted);
                           write_stream(json, "output", flow->out->number());
                           json.end_object();
                         }));
  }
}

}  // namespace sallyport::pod

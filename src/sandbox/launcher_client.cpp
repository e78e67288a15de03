#include "sandbox/launcher_wire.h"
#include "sandbox/packet.h"
#include "sandbox/spec_codec.h"

namespace sallyport::sandbox {

using Kind = LauncherRequest::Kind;

Status LauncherClient::launch(std::uint32_t container, const Spec& spec, const std::array<int, 3>& stdio) {
  return send_packet(socket_.get(), with_head(LauncherRequest{Kind::launch, container, 0, 0}, encode(spec)), stdio);
}

Status LauncherClient::exec(std::uint32_t container, std::uint32_t job, const Command& command) {
  return send_packet(socket_.get(), with_head(LauncherRequest{Kind::exec, container, job, 0}, encode(command)), command.fds);
}

Status LauncherClient::signal(std::uint32_t container, std::uint32_t job, int number) {
  return send_packet(socket_.get(), with_head(LauncherRequest{Kind::signal, container, job, number}, {}), {});
}

Status LauncherClient::kill(std::uint32_t container) {
  return send_packet(socket_.get(), with_head(LauncherRequest{Kind::kill, container, 0, 0}, {}), {});
}

Result<LauncherEvent> LauncherClient::next_event() {
  TRY(Packet packet, receive_packet(socket_.get()));
  LauncherAnswer answer{};
  if (!take_head(packet.bytes, answer)) return Error::make(Code::protocol_error, "a launcher event is too short");
  LauncherEvent event{answer.kind, answer.container, answer.job, answer.value, std::move(packet.bytes), {}, {}};
  if (event.kind == LauncherEvent::Kind::launched && !packet.fds.empty()) {
    event.pid_namespace = std::move(packet.fds.front());
  }
  if (event.kind == LauncherEvent::Kind::failed) {
    if (answer.code > static_cast<std::uint32_t>(Code::internal_error) || answer.detail_offset > event.text.size()) {
      return Error::make(Code::protocol_error, "a launcher failure makes no sense");
    }
    event.error = Error::make(static_cast<Code>(answer.code), event.text.substr(0, answer.detail_offset),
                              event.text.substr(answer.detail_offset));
    event.text.clear();
  }
  return event;
}

}  // namespace sallyport::sandbox

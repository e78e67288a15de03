#include "sandbox/launcher_protocol.h"

#include "os/packets.h"
#include "sandbox/fields.h"

namespace sallyport::sandbox {

// ---- one list of fields per message, read and written by the same visitor ----

template <typename Visitor>
void fields(Visitor& v, Bind& m) {
  v(m.source, m.target, m.is_writable, m.is_executable);
}
template <typename Visitor>
void fields(Visitor& v, Limits& m) {
  v(m.memory_bytes, m.processes, m.cpus, m.open_files, m.file_bytes, m.scratch_bytes, m.duration, m.idle);
}
template <typename Visitor>
void fields(Visitor& v, Risk& m) {
  v(m.reason);
}
template <typename Visitor>
void fields(Visitor& v, Spec& m) {
  v(m.name, m.command, m.environment, m.directory, m.hostname, m.workspace, m.is_workspace_writable, m.home, m.read,
    m.write, m.meant, m.deny, m.deny_patterns, m.binds, m.exec, m.refuse_hard_links, m.use_all_landlock_rights,
    m.has_proxy, m.limits, m.protect_workspace, m.report_violations, m.allow_weak, m.scan_records);
}
template <typename Visitor>
void fields(Visitor& v, LaunchRequest& m) {
  v(m.container, m.spec);
}
template <typename Visitor>
void fields(Visitor& v, ExecRequest& m) {
  v(m.container, m.job, m.arguments, m.environment, m.directory);
}
template <typename Visitor>
void fields(Visitor& v, WorkerRequest& m) {
  v(m.container, m.job);
}
template <typename Visitor>
void fields(Visitor& v, SignalRequest& m) {
  v(m.container, m.job, m.signal);
}
template <typename Visitor>
void fields(Visitor& v, KillRequest& m) {
  v(m.container);
}
template <typename Visitor>
void fields(Visitor& v, MakeUpRequest& m) {
  v(m.container, m.scan_records);
}
template <typename Visitor>
void fields(Visitor& v, Launched& m) {
  v(m.container, m.pid, m.protections_json, m.has_pid_namespace, m.has_proxy_listener);
}
template <typename Visitor>
void fields(Visitor& v, LaunchFailed& m) {
  v(m.container, m.job, m.code, m.message, m.detail, m.details_json);
}
template <typename Visitor>
void fields(Visitor& v, JobStarted& m) {
  v(m.container, m.job);
}
template <typename Visitor>
void fields(Visitor& v, JobExited& m) {
  v(m.container, m.job, m.wait_status);
}
template <typename Visitor>
void fields(Visitor& v, Violated& m) {
  v(m.container, m.operation, m.target, m.rule, m.error);
}
template <typename Visitor>
void fields(Visitor& v, Ended& m) {
  v(m.container, m.was_over_memory, m.was_over_time, m.reports);
}
template <typename Visitor>
void fields(Visitor& v, MadeUp& m) {
  v(m.container, m.name, m.reports);
}

namespace {

template <typename Message>
Result<Bytes> encode_any(Message message) {
  Bytes out;
  out.push_back(static_cast<char>(message.index()));
  FieldWriter writer(out);
  std::visit([&](auto& alternative) { fields(writer, alternative); }, message);
  if (out.size() > os::kMaxPacketBytes) {
    return Error::make(Code::payload_too_large, "command, environment or paths are too long for a sandbox");
  }
  return out;
}

template <typename Message, std::size_t kIndex = 0>
Result<Message> decode_any(ByteView packet) {
  if constexpr (kIndex == std::variant_size_v<Message>) {
    return Error::make(Code::protocol_error, "unknown packet");
  } else {
    if (packet.empty() || packet[0] != kIndex) return decode_any<Message, kIndex + 1>(packet);
    std::variant_alternative_t<kIndex, Message> alternative;
    FieldReader reader(packet.subspan(1));
    fields(reader, alternative);
    if (!reader.is_complete()) return Error::make(Code::protocol_error, "malformed packet");
    return Message(std::move(alternative));
  }
}

}  // namespace

Result<Bytes> encode(const ToLauncher& message) { return encode_any(message); }
Result<Bytes> encode(const FromLauncher& message) { return encode_any(message); }
Result<ToLauncher> decode_request(ByteView packet) { return decode_any<ToLauncher>(packet); }
Result<FromLauncher> decode_notice(ByteView packet) { return decode_any<FromLauncher>(packet); }

}  // namespace sallyport::sandbox

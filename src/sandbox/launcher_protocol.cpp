#include "sandbox/launcher_protocol.h"

#include <cstring>
#include <tuple>

#include "os/packets.h"

namespace sallyport::sandbox {
namespace {

// ---- one list of fields per message, read and written by the same visitor ----

template <typename Visitor>
void fields(Visitor& v, Bind& m) {
  v(m.source, m.target, m.is_writable, m.is_executable);
}
template <typename Visitor>
void fields(Visitor& v, Limits& m) {
  v(m.memory_bytes, m.processes, m.cpus, m.open_files, m.file_bytes, m.scratch_bytes, m.use_cgroup, m.duration, m.idle);
}
template <typename Visitor>
void fields(Visitor& v, Risk& m) {
  v(m.reason);
}
template <typename Visitor>
void fields(Visitor& v, Spec& m) {
  v(m.name, m.command, m.environment, m.directory, m.hostname, m.workspace, m.is_workspace_writable, m.home, m.read,
    m.write, m.deny, m.deny_patterns, m.binds, m.exec, m.refuse_hard_links, m.use_all_landlock_rights, m.has_proxy,
    m.limits, m.protect_workspace, m.report_violations, m.allow_weak);
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
void fields(Visitor& v, Launched& m) {
  v(m.container, m.pid, m.protections_json, m.has_pid_namespace, m.has_proxy_listener);
}
template <typename Visitor>
void fields(Visitor& v, LaunchFailed& m) {
  v(m.container, m.job, m.message, m.detail);
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

template <typename T>
constexpr bool kIsPlain = std::is_arithmetic_v<T>;

class Writer {
 public:
  explicit Writer(Bytes& out) : out_(out) {}
  template <typename... T>
  void operator()(T&... each) {
    (write(each), ...);
  }

 private:
  template <typename T>
    requires kIsPlain<T>
  void write(T value) {
    out_.append(&value, sizeof value);
  }
  void write(std::chrono::milliseconds& value) { write(static_cast<std::int64_t>(value.count())); }
  void write(std::string& text) {
    write(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }
  template <typename T>
  void write(std::vector<T>& list) {
    write(static_cast<std::uint32_t>(list.size()));
    for (T& item : list) write(item);
  }
  template <typename T>
  void write(std::optional<T>& item) {
    write(item.has_value());
    if (item) write(*item);
  }
  template <typename T>
    requires(!kIsPlain<T>)
  void write(T& group) {
    fields(*this, group);
  }

  Bytes& out_;
};

class Reader {
 public:
  explicit Reader(ByteView from) : from_(from) {}
  template <typename... T>
  void operator()(T&... each) {
    (read(each), ...);
  }
  bool is_complete() const { return is_good_ && from_.empty(); }

 private:
  const std::uint8_t* take(std::size_t count) {
    if (!is_good_ || count > from_.size()) {
      is_good_ = false;
      return nullptr;
    }
    const std::uint8_t* place = from_.data();
    from_ = from_.subspan(count);
    return place;
  }
  template <typename T>
    requires kIsPlain<T>
  void read(T& value) {
    if (const std::uint8_t* place = take(sizeof value)) std::memcpy(&value, place, sizeof value);
  }
  void read(bool& value) {
    std::uint8_t byte = 0;
    read(byte);
    value = byte != 0;
  }
  void read(std::chrono::milliseconds& value) {
    std::int64_t count = 0;
    read(count);
    value = std::chrono::milliseconds(count);
  }
  void read(std::string& text) {
    std::uint32_t size = 0;
    read(size);
    if (const std::uint8_t* place = take(size)) text.assign(reinterpret_cast<const char*>(place), size);
  }
  template <typename T>
  void read(std::vector<T>& list) {
    std::uint32_t size = 0;
    read(size);
    // Every item takes a byte at least: a count beyond that is a lie, told before memory is spent.
    if (size > from_.size()) is_good_ = false;
    for (std::uint32_t i = 0; is_good_ && i < size; ++i) read(list.emplace_back());
  }
  template <typename T>
  void read(std::optional<T>& item) {
    bool has_value = false;
    read(has_value);
    if (has_value) read(item.emplace());
  }
  template <typename T>
    requires(!kIsPlain<T>)
  void read(T& group) {
    fields(*this, group);
  }

  ByteView from_;
  bool is_good_ = true;
};

template <typename Message>
Result<Bytes> encode_any(Message message) {
  Bytes out;
  out.push_back(static_cast<char>(message.index()));
  Writer writer(out);
  std::visit([&](auto& alternative) { fields(writer, alternative); }, message);
  if (out.size() > os::kMaxPacketBytes) {
    return Error::make(Code::payload_too_large, "command, environment or paths are too long for a sandbox");
  }
  return out;
}

template <typename Message, std::size_t Index = 0>
Result<Message> decode_any(ByteView packet) {
  if constexpr (Index == std::variant_size_v<Message>) {
    return Error::make(Code::protocol_error, "unknown packet");
  } else {
    if (packet.empty() || packet[0] != Index) return decode_any<Message, Index + 1>(packet);
    std::variant_alternative_t<Index, Message> alternative;
    Reader reader(packet.subspan(1));
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

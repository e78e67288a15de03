#include "sandbox/spec_codec.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sallyport::sandbox {
namespace {

// The one list of fields, read by both directions.
template <typename Archive, typename S>
void visit_limits(Archive& archive, S& limits) {
  archive(limits.memory_bytes);
  archive(limits.processes);
  archive(limits.cpus);
  archive(limits.open_files);
  archive(limits.file_bytes);
  archive(limits.scratch_bytes);
  archive(limits.use_cgroup);
  archive(limits.duration);
  archive(limits.idle);
}

template <typename Archive, typename S>
void visit_spec(Archive& archive, S& spec) {
  archive(spec.name);
  archive(spec.command);
  archive(spec.environment);
  archive(spec.directory);
  archive(spec.hostname);
  archive(spec.workspace);
  archive(spec.is_workspace_writable);
  archive(spec.home);
  archive(spec.read);
  archive(spec.write);
  archive(spec.deny);
  archive(spec.deny_names);
  archive(spec.binds);
  archive(spec.exec);
  archive(spec.use_all_landlock_rights);
  visit_limits(archive, spec.limits);
  archive(spec.protect_workspace);
  archive(spec.report_violations);
  archive(spec.allow_weak);
}

template <typename Archive, typename C>
void visit_command(Archive& archive, C& command) {
  archive(command.arguments);
  archive(command.environment);
  archive(command.directory);
}

class Writer {
 public:
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }
  template <typename T>
    requires std::is_arithmetic_v<T>
  void operator()(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void operator()(const std::chrono::milliseconds& value) { (*this)(static_cast<std::int64_t>(value.count())); }
  void operator()(const Bind& bind) {
    (*this)(bind.source);
    (*this)(bind.target);
    (*this)(bind.is_writable);
    (*this)(bind.is_executable);
  }
  void operator()(const std::optional<Risk>& risk) {
    (*this)(risk.has_value());
    if (risk) (*this)(risk->reason);
  }
  template <typename T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) (*this)(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  void operator()(std::string& text) {
    const std::uint64_t size = count(1);
    text.assign(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
  }
  template <typename T>
    requires std::is_arithmetic_v<T>
  void operator()(T& value) {
    if (bytes_.size() < sizeof(value)) return fail();
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_.remove_prefix(sizeof(value));
  }
  void operator()(bool& value) {
    std::uint8_t byte = 0;
    (*this)(byte);
    if (byte > 1) fail();
    value = byte == 1;
  }
  void operator()(std::chrono::milliseconds& value) {
    std::int64_t millis = 0;
    (*this)(millis);
    value = std::chrono::milliseconds(millis);
  }
  void operator()(Bind& bind) {
    (*this)(bind.source);
    (*this)(bind.target);
    (*this)(bind.is_writable);
    (*this)(bind.is_executable);
  }
  void operator()(std::optional<Risk>& risk) {
    bool has_risk = false;
    (*this)(has_risk);
    if (has_risk) (*this)(risk.emplace().reason);
  }
  template <typename T>
  void operator()(std::vector<T>& values) {
    values.resize(count(1));
    for (T& value : values) (*this)(value);
  }

  Status finish() const {
    if (has_failed_ || !bytes_.empty()) return Error::make(Code::protocol_error, "malformed launcher message");
    return ok();
  }

 private:
  // A count of things that take at least `least` bytes each: never more than there are bytes.
  std::uint64_t count(std::size_t least) {
    std::uint64_t value = 0;
    (*this)(value);
    if (value > bytes_.size() / least) {
      fail();
      return 0;
    }
    return value;
  }
  void fail() {
    has_failed_ = true;
    bytes_ = {};
  }

  std::string_view bytes_;
  bool has_failed_ = false;
};

}  // namespace

std::string encode(const Spec& spec) {
  Writer writer;
  visit_spec(writer, spec);
  return writer.take();
}

std::string encode(const Command& command) {
  Writer writer;
  visit_command(writer, command);
  return writer.take();
}

Result<Spec> decode_spec(std::string_view bytes) {
  Reader reader(bytes);
  Spec spec;
  visit_spec(reader, spec);
  TRY(reader.finish());
  return spec;
}

Result<Command> decode_command(std::string_view bytes) {
  Reader reader(bytes);
  Command command;
  visit_command(reader, command);
  TRY(reader.finish());
  return command;
}

}  // namespace sallyport::sandbox

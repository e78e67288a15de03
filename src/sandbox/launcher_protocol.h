// What the warden and its launcher say to each other: one packet of a SOCK_SEQPACKET pair per message,
// descriptors beside it. Both are programs of one build; still, a packet that does not parse is refused.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/launch.h"
#include "sandbox/spec.h"
#include "sandbox/violations.h"

namespace sallyport::sandbox {

// A container's handle between the two; never reused while a launcher lives.
using Handle = std::uint32_t;

// ---- to the launcher ----
struct LaunchRequest {
  Handle container = 0;
  Spec spec;  // beside it: stdin, stdout, stderr of its command
};
struct ExecRequest {
  Handle container = 0;
  std::uint32_t job = 0;
  std::vector<std::string> arguments, environment;
  std::string directory;  // beside it: stdin, stdout, stderr
};
// The file worker: a job that runs code of the launcher's own program. Beside it: its socket.
struct WorkerRequest {
  Handle container = 0;
  std::uint32_t job = 0;
};
struct SignalRequest {
  Handle container = 0;
  std::uint32_t job = 0;  // 0: the container's own command
  std::int32_t signal = 0;
};
struct KillRequest {
  Handle container = 0;
};
// Scans at exit that were missed, to be made up for; see scan_record.h.
struct MakeUpRequest {
  Handle container = 0;  // none
  std::string scan_records;
};
using ToLauncher = std::variant<LaunchRequest, ExecRequest, WorkerRequest, SignalRequest, KillRequest, MakeUpRequest>;

// ---- from the launcher ----
struct Launched {
  Handle container = 0;
  std::int32_t pid = 0;  // of its pid 1
  std::string protections_json;
  // Beside it, in this order, what is true here.
  bool has_pid_namespace = false;
  bool has_proxy_listener = false;
};
struct LaunchFailed {
  Handle container = 0;
  std::uint32_t job = 0;                            // 0: the launch itself; else that exec
  std::string code, message, detail, details_json;  // of the Error
};
struct JobStarted {
  Handle container = 0;
  std::uint32_t job = 0;
};
struct JobExited {
  Handle container = 0;
  std::uint32_t job = 0;  // 0: the container's own command
  std::int32_t wait_status = 0;
};
struct Violated {
  Handle container = 0;
  std::string operation, target, rule;
  std::int32_t error = 0;
};
// The last word about a container: all of it is gone.
struct Ended {
  Handle container = 0;
  bool was_over_memory = false;
  bool was_over_time = false;
  std::vector<std::string> reports;  // sentences: what was re-protected, quarantined or found
};
// What a scan found that an earlier sandbox missed.
struct MadeUp {
  Handle container = 0;  // none
  std::string name;      // of that sandbox
  std::vector<std::string> reports;
};
using FromLauncher = std::variant<Launched, LaunchFailed, JobStarted, JobExited, Violated, Ended, MadeUp>;

// PAYLOAD_TOO_LARGE above os::kMaxPacketBytes: a command line or environment no launcher could take.
Result<Bytes> encode(const ToLauncher& message);
Result<Bytes> encode(const FromLauncher& message);
Result<ToLauncher> decode_request(ByteView packet);
Result<FromLauncher> decode_notice(ByteView packet);

}  // namespace sallyport::sandbox

// The error value that crosses every boundary of the system.
//
// An Error speaks to two audiences. `message` is for the caller: it may travel over a door and
// must leak nothing of the host. `detail` is for the log (errno, host path, rule) and never leaves
// the process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sallyport {

// The closed set of error codes on the wire. Their spelling is fixed by docs/protocol.md.
enum class Code : std::uint8_t {
  protocol_error,
  invalid_request,
  method_not_found,
  invalid_params,
  payload_too_large,
  unauthenticated,
  policy_denied,
  approval_denied,
  approval_expired,
  rate_limited,
  quota_exceeded,
  not_found,
  conflict,
  io_error,
  timeout,
  cancelled,
  unavailable,
  unimplemented,
  internal_error,
};

std::string_view to_string(Code code);                        // "POLICY_DENIED"
std::optional<Code> code_from_string(std::string_view text);  // exact spelling only

struct [[nodiscard]] Error {
  Code code = Code::internal_error;
  std::string message;       // for the caller
  std::string detail;        // for the log; never sent
  std::string details_json;  // a JSON object for the caller, or empty
  bool retryable = false;

  static Error make(Code code, std::string message, std::string detail = {});
  // IO_ERROR with details {"errno":"ENOENT"}; `what` names the operation for the caller.
  static Error from_errno(std::string what, int error_number, std::string detail = {});
  // INVALID_PARAMS with details {"field":"params.path"}.
  static Error invalid_param(std::string_view field, std::string_view problem);

  // One line with both audiences' text, for logs and for a human at the host's own terminal.
  std::string describe() const;
};

// "ENOENT" for 2; "E<number>" for what this libc cannot name.
std::string errno_name(int error_number);

}  // namespace sallyport

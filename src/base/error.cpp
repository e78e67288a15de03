#include "base/error.h"

#include <array>
#include <cstring>

namespace sallyport {
namespace {

// Indexed by Code.
constexpr std::array<std::string_view, 19> kNames = {
    "PROTOCOL_ERROR",  "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS",   "PAYLOAD_TOO_LARGE",
    "UNAUTHENTICATED", "POLICY_DENIED",   "APPROVAL_DENIED",  "APPROVAL_EXPIRED", "RATE_LIMITED",
    "QUOTA_EXCEEDED",  "NOT_FOUND",       "CONFLICT",         "IO_ERROR",         "TIMEOUT",
    "CANCELLED",       "UNAVAILABLE",     "UNIMPLEMENTED",    "INTERNAL_ERROR",
};
static_assert(kNames.size() == static_cast<std::size_t>(Code::internal_error) + 1);

// What a caller may sensibly send again unchanged, later.
bool is_retryable(Code code) {
  return code == Code::rate_limited || code == Code::quota_exceeded || code == Code::unavailable ||
         code == Code::timeout;
}

}  // namespace

std::string_view to_string(Code code) { return kNames.at(static_cast<std::size_t>(code)); }

std::optional<Code> code_from_string(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i) == text) return static_cast<Code>(i);
  }
  return std::nullopt;
}

Error Error::make(Code code, std::string message, std::string detail) {
  return {code, std::move(message), std::move(detail), {}, is_retryable(code)};
}

Error Error::from_errno(std::string what, int error_number, std::string detail) {
  Error error = make(Code::io_error, std::move(what), std::move(detail));
  error.message += ": ";
  error.message += ::strerrordesc_np(error_number) ? ::strerrordesc_np(error_number) : "unknown error";
  error.details_json = "{\"errno\":\"" + errno_name(error_number) + "\"}";
  return error;
}

Error Error::invalid_param(std::string_view field, std::string_view problem) {
  Error error = make(Code::invalid_params, std::string(field) + ": " + std::string(problem));
  // Field names come from our own schemas or were checked as identifiers: nothing to escape.
  error.details_json = "{\"field\":\"" + std::string(field) + "\"}";
  return error;
}

std::string Error::describe() const {
  std::string text(to_string(code));
  text += ": " + message;
  if (!detail.empty()) text += " (" + detail + ")";
  return text;
}

std::string errno_name(int error_number) {
  const char* name = ::strerrorname_np(error_number);
  return name ? name : "E" + std::to_string(error_number);
}

}  // namespace sallyport

#include "policy/tokens.h"

namespace sallyport::policy {
namespace {

Error refused(const char* why) {
  return Error::make(Code::unauthenticated,
                     "this method needs a capability token, made by token.create of this very process for it "
                     "(on the command line: sallyport call --token METHOD)",
                     why);
}

// No token outlives the process that signed it, so the time since some moment will do; the wall clock can be set.
std::int64_t steady_millis(const Clock& clock) {
  return std::chrono::duration_cast<Millis>(clock.steady().time_since_epoch()).count();
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern == "*") return true;
  if (pattern.ends_with(".*")) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == name;
}

bool matches_any(const std::vector<std::string>& patterns, std::string_view name) {
  for (const std::string& pattern : patterns) {
    if (matches(pattern, name)) return true;
  }
  return false;
}

Tokens::Tokens(const Clock& clock) : clock_(clock) { fill_random(key_); }

wire::Digest Tokens::sign(std::string_view claims) const { return wire::hmac_sha256(key_, as_bytes(claims)); }

std::string Tokens::create(const Principal& principal, std::uint64_t process, const std::vector<std::string>& methods,
                           Millis ttl) const {
  const std::string claims = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("principal", principal.to_string()).member("process", process);
    json.member("expires", steady_millis(clock_) + ttl.count()).key("methods").begin_array();
    for (const std::string& method : methods) json.value(method);
    json.end_array().end_object();
  });
  return to_base64url(as_bytes(claims)) + '.' + to_base64url(sign(claims));
}

Status Tokens::check(std::string_view token, const Principal& principal, std::uint64_t process,
                     std::string_view method) const {
  if (token.empty()) return refused("no token");
  const std::size_t dot = token.find('.');
  if (dot == std::string_view::npos) return refused("not a token");
  const auto claims = from_base64url(token.substr(0, dot));
  const auto signature = from_base64url(token.substr(dot + 1));
  if (!claims || !signature || !wire::constant_time_equal(as_bytes(*signature), sign(*claims))) {
    return refused("wrong signature");
  }
  // Signed by us: well formed.
  wire::Decoder decoder;
  TRY(const wire::Document document, decoder.parse(*claims));
  const wire::Value root = document.root();
  if (root.get("principal").as_string() != principal.to_string()) return refused("made for another principal");
  if (root.get("process").as_uint() != process) return refused("made for another process");
  if (root.get("expires").as_int().value_or(0) <= steady_millis(clock_)) return refused("expired");
  for (const wire::Value pattern : root.get("methods").items()) {
    if (matches(pattern.as_string().value_or(""), method)) return ok();
  }
  return refused("does not cover the method");
}

}  // namespace sallyport::policy

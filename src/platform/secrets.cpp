#include "platform/secrets.h"

#include <algorithm>
#include <array>

namespace sallyport::platform {
namespace {

// Keys that would hold a secret; compared without case, dashes and underscores.
constexpr std::string_view kSecretKeys[] = {
    "password", "passwd",    "pwd",    "passphrase", "secret",        "clientsecret",    "token",      "accesstoken",
    "apitoken", "authtoken", "bearer", "apikey",     "accesskey",     "secretkey",       "privatekey", "key",
    "auth",     "cookie",    "jwt",    "signature",  "authorization", "connectionstring"};

// How the keys of well-known providers begin.
constexpr std::string_view kSecretStarts[] = {"sk-",   "sk_live_", "ghp_",        "gho_",   "github_pat_", "glpat-",
                                              "xoxb-", "xoxp-",    "AKIA",        "ASIA",   "AIza",        "eyJhbGciOi",
                                              "hf_",   "Bearer ",  "-----BEGIN ", "Basic ", "eyJ0eXAi"};
constexpr std::size_t kLeastKeyBytes = 16;

bool is_secret_key(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == '-' || c == '_') continue;
    plain.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return std::find(std::begin(kSecretKeys), std::end(kSecretKeys), plain) != std::end(kSecretKeys);
}

bool has_user_info(std::string_view text) {
  const std::size_t scheme = text.find("://");
  if (scheme == std::string_view::npos) return false;
  const std::size_t end = text.find_first_of("/?#", scheme + 3);
  return text.substr(scheme + 3, end == std::string_view::npos ? end : end - scheme - 3).find('@') !=
         std::string_view::npos;
}

bool is_key_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// At the beginning, or further in as a word of its own that is long enough to be a key: a path may be named "/sk-1".
bool is_secret_in(std::string_view text, std::string_view start) {
  if (text.starts_with(start)) return true;
  for (std::size_t at = text.find(start); at != std::string_view::npos; at = text.find(start, at + 1)) {
    std::size_t end = at + start.size();
    while (end < text.size() && is_key_char(text[end])) ++end;
    if (!is_key_char(text[at - 1]) && end - at >= kLeastKeyBytes) return true;
  }
  return false;
}

std::optional<std::string> problem_of(std::string_view text) {
  if (text.find("${") != std::string_view::npos || text.find("$(") != std::string_view::npos) {
    return "nothing is interpolated here: name a credential with from_env or from_file";
  }
  if (has_user_info(text)) return "an address must not carry user info: name a credential instead";
  for (const std::string_view start : kSecretStarts) {
    if (is_secret_in(text, start)) return "looks like a secret: name a credential with from_env or from_file";
  }
  return std::nullopt;
}

}  // namespace

// The fault never repeats the value: it may end up in a log.
Status refuse_secrets(const std::string& path, const Node& node) {
  if (node.kind == Node::Kind::text) {
    if (const auto problem = problem_of(node.text)) return fault(path, node.where, *problem);
  }
  for (const Node& item : node.items) TRY(refuse_secrets(path, item));
  for (const Node::Member& member : node.members) {
    if (const auto problem = problem_of(member.name)) return fault(path, member.where, "a name " + *problem);
    const bool is_value = member.value.kind != Node::Kind::object && member.value.kind != Node::Kind::array;
    if (is_value && is_secret_key(member.name)) {
      return fault(path, member.where,
                   "'" + member.name + "' would hold a secret: name a credential with from_env or from_file");
    }
    TRY(refuse_secrets(path, member.value));
  }
  return ok();
}

}  // namespace sallyport::platform

// Every operation of the platform, as one table that the warden and the adapters share: its role, how long it
// may take, whether it changes something, what names its scope and what it spends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace sallyport::platform {

enum class Role : std::uint8_t { storage, cache, vector, llm, embeddings, events };
inline constexpr Role kRoles[] = {Role::storage, Role::cache, Role::vector, Role::llm, Role::embeddings, Role::events};
std::string_view to_string(Role role);
std::optional<Role> role_from_string(std::string_view text);

enum class Spends : std::uint8_t { nothing, storage_bytes, tokens };

struct Operation {
  std::string_view method;
  Role role;
  std::string_view scope;  // the parameter that permissions are about
  Millis timeout;
  bool is_write = false;
  Spends spends = Spends::nothing;
  bool has_events = false;  // goes on until it is cancelled or done, and tells what happens meanwhile
};

// Whose data a call is about. Always in front of every key, path and topic that a backend sees.
struct Scope {
  std::string tenant, name;
};

std::span<const Operation> operations();
const Operation* find_operation(std::string_view method);

}  // namespace sallyport::platform

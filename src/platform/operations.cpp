#include "platform/operations.h"

#include <array>

namespace sallyport::platform {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"storage", "cache", "vector", "llm", "embeddings", "events"};

constexpr Millis kStorage{30'000}, kCache{5'000}, kSearch{30'000}, kUpsert{120'000}, kLlm{300'000}, kEvents{5'000};

constexpr Operation kOperations[] = {
    {"storage.read", Role::storage, "bucket", kStorage},
    {"storage.write", Role::storage, "bucket", kUpsert, true, Spends::storage_bytes},
    {"storage.delete", Role::storage, "bucket", kStorage, true, Spends::storage_bytes},
    {"storage.list", Role::storage, "bucket", kStorage},
    {"storage.stat", Role::storage, "bucket", kStorage},
    {"cache.get", Role::cache, "namespace", kCache},
    {"cache.set", Role::cache, "namespace", kCache, true},
    {"cache.delete", Role::cache, "namespace", kCache, true},
    {"cache.clear", Role::cache, "namespace", kCache, true},
    {"cache.set_if_absent", Role::cache, "namespace", kCache, true},
    {"cache.incr", Role::cache, "namespace", kCache, true},
    {"vector.upsert", Role::vector, "namespace", kUpsert, true, Spends::storage_bytes},
    {"vector.search", Role::vector, "namespace", kSearch},
    {"vector.delete", Role::vector, "namespace", kSearch, true, Spends::storage_bytes},
    {"vector.count", Role::vector, "namespace", kSearch},
    {"vector.get", Role::vector, "namespace", kSearch},
    {"llm.complete", Role::llm, "model", kLlm, false, Spends::tokens},
    {"llm.stream", Role::llm, "model", kLlm, false, Spends::tokens, true},
    {"embeddings.embed", Role::embeddings, "model", kUpsert, false, Spends::tokens},
    {"embeddings.embed_batch", Role::embeddings, "model", kUpsert, false, Spends::tokens},
    {"embeddings.dimensions", Role::embeddings, "model", kSearch, false, Spends::tokens},
    {"events.publish", Role::events, "topic", kEvents, true},
    {"events.subscribe", Role::events, "topics", Millis(0), false, Spends::nothing, true},
};

}  // namespace

std::string_view to_string(Role role) { return kNames.at(static_cast<std::size_t>(role)); }

std::optional<Role> role_from_string(std::string_view text) {
  for (const Role role : kRoles) {
    if (to_string(role) == text) return role;
  }
  return std::nullopt;
}

std::span<const Operation> operations() { return kOperations; }

const Operation* find_operation(std::string_view method) {
  for (const Operation& operation : kOperations) {
    if (operation.method == method) return &operation;
  }
  return nullptr;
}

}  // namespace sallyport::platform

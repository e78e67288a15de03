#include "adapters/cache.h"

#include "adapters/bulk.h"
#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

Ttl ttl_of(ipc::Call& call) {
  const auto millis = call.params().get("ttl_ms").as_int();
  return millis ? Ttl(Millis(*millis)) : Ttl();
}

}  // namespace

Task<ipc::Reply> Cache::get_value(ipc::Call& call, CacheKey key) {
  CO_TRY(auto value, co_await get(key));
  if (!value) co_return call.result([](wire::JsonWriter& json) { json.raw(R"({"found":false})"); });
  co_return reply_with_value(call, "value", std::move(*value),
                             [](wire::JsonWriter& json) { json.member("found", true); });
}

Task<ipc::Reply> Cache::set_value(ipc::Call& call, CacheKey key, bool only_if_absent) {
  const auto said = call.params().get("size").as_int();
  CO_TRY(std::string value, co_await take_value(call, call.params().get("value"),
                                                said ? static_cast<std::size_t>(*said) : platform::kMaxValueBytes));
  bool is_set = true;
  if (only_if_absent) {
    CO_TRY(is_set, co_await set_if_absent(key, std::move(value), ttl_of(call)));
  } else {
    CO_TRY(co_await set(key, std::move(value), ttl_of(call)));
  }
  co_return call.result([&](wire::JsonWriter& json) { json.begin_object().member("set", is_set).end_object(); });
}

Task<ipc::Reply> Cache::delete_value(ipc::Call& call, CacheKey key) {
  CO_TRY(const bool was_there, co_await remove(key));
  co_return call.result([&](wire::JsonWriter& json) { json.begin_object().member("deleted", was_there).end_object(); });
}

Task<ipc::Reply> Cache::increment(ipc::Call& call, CacheKey key) {
  CO_TRY(const std::int64_t value, co_await incr(key, call.params().get("by").as_int().value_or(1), ttl_of(call)));
  co_return call.result([&](wire::JsonWriter& json) { json.begin_object().member("value", value).end_object(); });
}

Task<ipc::Reply> Cache::clear_scope(ipc::Call& call, Scope scope) {
  CO_TRY(const std::int64_t count, co_await clear(call, scope));
  co_return call.result([&](wire::JsonWriter& json) { json.begin_object().member("deleted", count).end_object(); });
}

Task<ipc::Reply> Cache::handle(std::string_view verb, ipc::Call& call) {
  auto scope = scope_of(call, "namespace");
  if (!scope) return Task<ipc::Reply>::ready(std::move(scope).error());
  if (verb == "clear") return clear_scope(call, std::move(*scope));
  CacheKey key{std::move(*scope), std::string(call.params().get("key").as_string().value_or(""))};
  if (verb == "get") return get_value(call, std::move(key));
  if (verb == "set") return set_value(call, std::move(key), false);
  if (verb == "set_if_absent") return set_value(call, std::move(key), true);
  if (verb == "delete") return delete_value(call, std::move(key));
  if (verb == "incr") return increment(call, std::move(key));
  return Task<ipc::Reply>::ready(Error::make(Code::method_not_found, "no such method"));
}

}  // namespace sallyport::adapters

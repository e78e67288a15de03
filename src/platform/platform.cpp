#include "platform/platform.h"

#include <cstdlib>
#include <cstring>

#include "os/paths.h"
#include "platform/embedded.h"
#include "platform/file_store.h"
#include "platform/limits.h"
#include "platform/memory_cache.h"

namespace sallyport::platform {
namespace {

using wire::JsonWriter;
using wire::Value;

Noop noop_of(Value result) {
  return {result.get("noop").as_bool().value_or(false), std::string(result.get("reason").as_string().value_or(""))};
}

Given<std::int64_t> count_of(Value result, std::string_view member) {
  return {result.get(member).as_int().value_or(0), noop_of(result)};
}

std::string text_of(Value value) { return std::string(value.as_string().value_or("")); }

// Bytes that JSON can carry as they are.
bool is_plain_text(std::string_view bytes) {
  for (const char c : bytes) {
    if (static_cast<unsigned char>(c) >= 0x80 || c == '\0') return false;
  }
  return true;
}

Completion completion_of(Value result) {
  Completion completion;
  static_cast<Noop&>(completion) = noop_of(result);
  completion.text = text_of(result.get("text"));
  completion.finish_reason = text_of(result.get("finish_reason"));
  completion.input_tokens = result.get("usage").get("input_tokens").as_int().value_or(0);
  completion.output_tokens = result.get("usage").get("output_tokens").as_int().value_or(0);
  completion.is_model = result.get("is_model").as_bool().value_or(false);
  return completion;
}

}  // namespace

Platform::Platform(std::unique_ptr<Client> client) : client_(std::move(client)) {
  client_->on_event([this](const wire::Message& event) {
    if (event.method == "events.message") {
      if (const auto found = subscriptions_.find(event.id); found != subscriptions_.end()) {
        found->second(event.params.get("topic").as_string().value_or(""), event.params.get("payload"));
      }
    } else if (event.method == "llm.token") {
      if (const auto found = token_streams_.find(event.id); found != token_streams_.end()) {
        found->second(event.params.get("text").as_string().value_or(""));
      }
    } else if (event.method == "events.subscribed") {
      if (const auto found = token_streams_.find(event.id); found != token_streams_.end()) found->second({});
    }
  });
}

Platform::~Platform() = default;

Result<std::unique_ptr<Platform>> init_platform(std::unique_ptr<Client> client) {
  std::unique_ptr<Platform> platform(new Platform(std::move(client)));
  TRY(platform->init(false));
  return platform;
}

Result<std::unique_ptr<Platform>> init_platform() {
  std::string door;
  if (const char* inside = std::getenv("SALLYPORT_DOOR")) {
    door = inside;
  } else {
    TRY(const os::Paths paths, os::paths_from_environment());
    door = paths.control_socket();
  }
  TRY(auto client, Client::connect_unix(door));
  return init_platform(std::move(client));
}

Status Platform::init(bool must_be_same) {
  TRY(const Answer answer, client_->call("platform.init", wire::to_json([&](JsonWriter& json) {
                                           json.begin_object().member("protocol", kProtocolVersion);
                                           if (must_be_same) json.member("config_hash", config_hash_);
                                           json.end_object();
                                         })));
  const Value result = answer.value();
  if (result.get("protocol").as_int() != kProtocolVersion) {
    return Error::make(Code::conflict, "the host speaks another version of the platform's protocol");
  }
  tenant_ = text_of(result.get("tenant"));
  config_hash_ = text_of(result.get("config_hash"));
  for (const Role role : kRoles) {
    const Value given = result.get("adapters").get(to_string(role));
    AdapterState& state = adapters_[role];
    state = {};
    state.state = text_of(given.get("state"));
    state.reason = text_of(given.get("reason"));
    state.implementation = text_of(given.get("implementation"));
    for (const Value model : given.get("models").items()) state.models.push_back(text_of(model));
    state.is_in_worker = given.get("placement").as_string() == "worker";
    state.directory = text_of(given.get("directory"));
    state.may_write = given.get("may_write").as_bool().value_or(false);
    state.max_bytes = given.get("max_bytes").as_uint().value_or(0);
    state.is_model = given.get("is_model").as_bool().value_or(false);
    state.dimensions = given.get("dimensions").as_int().value_or(0);
  }
  if (is_local(Role::cache) && !local_cache_) local_cache_ = std::make_unique<MemoryCache>(clock_);
  if (is_local(Role::storage) && !local_store_) {
    local_store_ = std::make_unique<FileStore>(adapters_.at(Role::storage).directory);
  }
  return ok();
}

Status Platform::refresh() { return init(true); }

// ---- calls ----

Result<Answer> Platform::call(std::string_view method, const std::string& params) {
  const Operation* operation = find_operation(method);
  CallOptions options;
  if (operation != nullptr) options.deadline = operation->timeout;
  return client_->call(method, params, options);
}

Result<Answer> Platform::call_with_bytes(std::string_view method, std::string_view member, std::string_view bytes,
                                         bool is_always_stream, const std::function<void(JsonWriter&)>& fill) {
  if (!is_always_stream && bytes.size() <= kInlineBytes && is_plain_text(bytes)) {
    return call(method, wire::to_json([&](JsonWriter& json) {
                  json.begin_object().member(member, bytes);
                  fill(json);
                  json.end_object();
                }));
  }
  TRY(const std::uint32_t stream, client_->open_stream());
  const std::string params = wire::to_json([&](JsonWriter& json) {
    json.begin_object().key(member).begin_object().member("$stream", stream).end_object();
    if (!is_always_stream) json.member("size", bytes.size());
    fill(json);
    json.end_object();
  });
  std::optional<Result<Answer>> answer;
  CallOptions options;
  options.deadline = find_operation(method)->timeout;
  TRY(client_->start(method, params, [&](Result<Answer> came) { answer = std::move(came); }, options));
  // A refused call resets the stream: its answer says why.
  if (client_->write_stream(stream, as_bytes(bytes))) [[maybe_unused]]
    const Status finished = client_->finish_stream(stream);
  while (!answer) TRY(client_->dispatch(Millis(1'000)));
  return std::move(*answer);
}

Result<std::string> Platform::take_bytes(Value value) {
  if (const auto text = value.as_string()) return std::string(*text);
  const auto stream = static_cast<std::uint32_t>(value.get("$stream").as_int().value_or(0));
  std::string bytes;
  for (;;) {
    TRY(const Bytes piece, client_->read_stream(stream));
    if (piece.empty()) return bytes;
    bytes.append(as_text(piece.view()));
  }
}

// ---- cache ----

namespace {

std::string entry_params(const std::string& space, const std::string& key) {
  return wire::to_json(
      [&](JsonWriter& json) { json.begin_object().member("namespace", space).member("key", key).end_object(); });
}

}  // namespace

Result<Given<std::optional<std::string>>> Platform::Cache::get(const std::string& key) {
  using Text = Given<std::optional<std::string>>;
  if (platform_.is_local(Role::cache)) {
    const std::string* value = platform_.local_cache_->get(space_ + '\0' + key);
    return Text(value != nullptr ? std::optional(*value) : std::nullopt);
  }
  TRY(const Answer answer, platform_.call("cache.get", entry_params(space_, key)));
  if (!answer.value().get("found").as_bool().value_or(false)) return Text({}, noop_of(answer.value()));
  TRY(std::string bytes, platform_.take_bytes(answer.value().get("value")));
  return Text(std::move(bytes));
}

Result<Given<bool>> Platform::Cache::store(std::string_view method, const std::string& key, std::string_view value,
                                           Ttl ttl) {
  TRY(const Answer answer, platform_.call_with_bytes(method, "value", value, false, [&](JsonWriter& json) {
    json.member("namespace", space_).member("key", key);
    if (ttl) json.member("ttl_ms", ttl->count());
  }));
  return Given<bool>(answer.value().get("set").as_bool().value_or(false), noop_of(answer.value()));
}

Result<Noop> Platform::Cache::set(const std::string& key, std::string_view value, Ttl ttl) {
  if (platform_.is_local(Role::cache)) {
    TRY(platform_.local_cache_->set(space_ + '\0' + key, std::string(value), ttl));
    return Noop();
  }
  TRY(Given<bool> stored, store("cache.set", key, value, ttl));
  return Noop(std::move(stored));
}

Result<Given<bool>> Platform::Cache::set_if_absent(const std::string& key, std::string_view value, Ttl ttl) {
  if (platform_.is_local(Role::cache)) {
    TRY(const bool is_set, platform_.local_cache_->set_if_absent(space_ + '\0' + key, std::string(value), ttl));
    return Given<bool>(is_set);
  }
  return store("cache.set_if_absent", key, value, ttl);
}

Result<Given<bool>> Platform::Cache::remove(const std::string& key) {
  if (platform_.is_local(Role::cache)) return Given<bool>(platform_.local_cache_->remove(space_ + '\0' + key));
  TRY(const Answer answer, platform_.call("cache.delete", entry_params(space_, key)));
  return Given<bool>(answer.value().get("deleted").as_bool().value_or(false), noop_of(answer.value()));
}

Result<Given<std::int64_t>> Platform::Cache::clear() {
  if (platform_.is_local(Role::cache)) {
    return Given<std::int64_t>(platform_.local_cache_->remove_prefix(space_ + '\0'));
  }
  TRY(const Answer answer, platform_.call("cache.clear", wire::to_json([&](JsonWriter& json) {
                                            json.begin_object().member("namespace", space_).end_object();
                                          })));
  return count_of(answer.value(), "deleted");
}

Result<Given<std::int64_t>> Platform::Cache::incr(const std::string& key, std::int64_t by, Ttl ttl) {
  if (platform_.is_local(Role::cache)) {
    TRY(const std::int64_t sum, platform_.local_cache_->add(space_ + '\0' + key, by, ttl));
    return Given<std::int64_t>(sum);
  }
  TRY(const Answer answer,
      platform_.call("cache.incr", wire::to_json([&](JsonWriter& json) {
                       json.begin_object().member("namespace", space_).member("key", key).member("by", by);
                       if (ttl) json.member("ttl_ms", ttl->count());
                       json.end_object();
                     })));
  return count_of(answer.value(), "value");
}

// ---- vectors ----

namespace {

std::string_view bytes_of(std::span<const float> floats) {
  return {reinterpret_cast<const char*>(floats.data()), floats.size_bytes()};
}

void write_ids(JsonWriter& json, const std::vector<std::string>& ids) {
  json.key("ids").begin_array();
  for (const std::string& id : ids) json.value(id);
  json.end_array();
}

}  // namespace

Result<Noop> Platform::Vectors::upsert(const std::vector<std::string>& ids, std::span<const float> vectors,
                                       std::size_t dimensions, std::string_view metadata_json) {
  TRY(const Answer answer,
      platform_.call_with_bytes("vector.upsert", "vectors", bytes_of(vectors), true, [&](JsonWriter& json) {
        json.member("namespace", space_).member("dimensions", dimensions);
        write_ids(json, ids);
        if (!metadata_json.empty()) json.key("metadata").raw(metadata_json);
      }));
  return noop_of(answer.value());
}

Result<Given<std::vector<Match>>> Platform::Vectors::search(std::span<const float> vector, std::size_t top_k,
                                                            std::string_view filter_json) {
  TRY(const Answer answer,
      platform_.call_with_bytes("vector.search", "vector", bytes_of(vector), true, [&](JsonWriter& json) {
        json.member("namespace", space_).member("dimensions", vector.size()).member("top_k", top_k);
        if (!filter_json.empty()) json.key("filter").raw(filter_json);
      }));
  Given<std::vector<Match>> matches({}, noop_of(answer.value()));
  for (const Value match : answer.value().get("matches").items()) {
    matches.push_back(
        {text_of(match.get("id")), match.get("metadata").to_json(), match.get("score").as_double().value_or(0)});
  }
  return matches;
}

Result<Given<std::vector<StoredVector>>> Platform::Vectors::get(const std::vector<std::string>& ids) {
  TRY(const Answer answer, platform_.call("vector.get", wire::to_json([&](JsonWriter& json) {
                                            json.begin_object().member("namespace", space_);
                                            write_ids(json, ids);
                                            json.end_object();
                                          })));
  const Value result = answer.value();
  Given<std::vector<StoredVector>> all({}, noop_of(result));
  if (all.is_noop) return all;
  TRY(const std::string bytes, platform_.take_bytes(result.get("vectors")));
  const auto stride = static_cast<std::size_t>(result.get("dimensions").as_uint().value_or(0)) * sizeof(float);
  if (bytes.size() != stride * result.get("items").size()) {
    return Error::make(Code::unavailable, "the adapter's vectors do not fit what it says of them");
  }
  const char* from = bytes.data();
  for (const Value item : result.get("items").items()) {
    StoredVector stored{text_of(item.get("id")), item.get("metadata").to_json(), {}};
    stored.vector.resize(stride / sizeof(float));
    std::memcpy(stored.vector.data(), from, stride);
    from += stride;
    all.push_back(std::move(stored));
  }
  return all;
}

Result<Given<std::int64_t>> Platform::Vectors::remove(const std::vector<std::string>& ids) {
  TRY(const Answer answer, platform_.call("vector.delete", wire::to_json([&](JsonWriter& json) {
                                            json.begin_object().member("namespace", space_);
                                            write_ids(json, ids);
                                            json.end_object();
                                          })));
  return count_of(answer.value(), "deleted");
}

Result<Given<std::int64_t>> Platform::Vectors::count(std::string_view filter_json) {
  TRY(const Answer answer, platform_.call("vector.count", wire::to_json([&](JsonWriter& json) {
                                            json.begin_object().member("namespace", space_);
                                            if (!filter_json.empty()) json.key("filter").raw(filter_json);
                                            json.end_object();
                                          })));
  return count_of(answer.value(), "count");
}

// ---- models ----

std::string Platform::ask_json(std::string_view prompt, const Ask& ask) const {
  return wire::to_json([&](JsonWriter& json) {
    json.begin_object();
    if (!ask.model.empty()) json.member("model", ask.model);
    if (ask.max_tokens > 0) json.member("max_tokens", ask.max_tokens);
    if (ask.temperature) json.member("temperature", *ask.temperature);
    json.key("messages").begin_array();
    if (!ask.system.empty()) {
      json.begin_object().member("role", "system").member("content", ask.system).end_object();
    }
    json.begin_object().member("role", "user").member("content", prompt).end_object();
    json.end_array().end_object();
  });
}

namespace {

Completion echo_here(std::string_view prompt, const Ask& ask, const Platform::OnToken& on_token) {
  Completion completion;
  const Echo said = echo(prompt, ask.max_tokens, [&](std::string_view word) { return !on_token || on_token(word); });
  completion.text = said.text;
  completion.finish_reason = said.finish_reason;
  completion.output_tokens = said.words;
  for (const std::string_view text : {std::string_view(ask.system), prompt}) {
    completion.input_tokens += static_cast<std::int64_t>(split_words(text).size());
  }
  return completion;
}

}  // namespace

Result<Completion> Platform::complete(std::string_view prompt, const Ask& ask) {
  if (is_local(Role::llm)) return echo_here(prompt, ask, {});
  TRY(const Answer answer, call("llm.complete", ask_json(prompt, ask)));
  return completion_of(answer.value());
}

Result<Completion> Platform::stream(std::string_view prompt, const OnToken& on_token, const Ask& ask) {
  if (is_local(Role::llm)) return echo_here(prompt, ask, on_token);
  std::optional<Result<Answer>> answer;
  CallOptions options;
  options.deadline = find_operation("llm.stream")->timeout;
  TRY(const std::string id,
      client_->start(
          "llm.stream", ask_json(prompt, ask), [&](Result<Answer> came) { answer = std::move(came); }, options));
  bool is_wanted = true;
  token_streams_[id] = [&](std::string_view text) {
    if (!is_wanted || on_token(text)) return;
    is_wanted = false;
    client_->cancel(id);
  };
  Status dispatched = ok();
  while (!answer && dispatched) dispatched = client_->dispatch(Millis(1'000));
  token_streams_.erase(id);
  TRY(dispatched);
  TRY(const Answer came, std::move(*answer));
  return completion_of(came.value());
}

Result<Embeddings> Platform::embed(const std::vector<std::string>& texts, const std::string& model) {
  Embeddings all;
  if (is_local(Role::embeddings)) {
    all.dimensions = static_cast<std::size_t>(adapter(Role::embeddings).dimensions);
    for (const std::string& text : texts) {
      const std::vector<float> vector = hash_text(text, all.dimensions);
      all.vectors.insert(all.vectors.end(), vector.begin(), vector.end());
    }
    all.count = texts.size();
    return all;
  }
  TRY(const Answer answer, call("embeddings.embed_batch", wire::to_json([&](JsonWriter& json) {
                                  json.begin_object();
                                  if (!model.empty()) json.member("model", model);
                                  json.key("texts").begin_array();
                                  for (const std::string& text : texts) json.value(text);
                                  json.end_array().end_object();
                                })));
  const Value result = answer.value();
  static_cast<Noop&>(all) = noop_of(result);
  all.count = static_cast<std::size_t>(result.get("count").as_int().value_or(0));
  all.dimensions = static_cast<std::size_t>(result.get("dimensions").as_int().value_or(0));
  all.is_model = result.get("is_model").as_bool().value_or(false);
  if (all.is_noop) return all;
  TRY(const std::string bytes, take_bytes(result.get("vectors")));
  all.vectors.resize(bytes.size() / sizeof(float));
  std::memcpy(all.vectors.data(), bytes.data(), all.vectors.size() * sizeof(float));
  return all;
}

// ---- events and log ----

Result<Given<std::int64_t>> Platform::publish(const std::string& topic, std::string_view payload_json) {
  TRY(const Answer answer,
      call("events.publish", wire::to_json([&](JsonWriter& json) {
             json.begin_object().member("topic", topic).key("payload").raw(payload_json).end_object();
           })));
  return count_of(answer.value(), "receivers");
}

Status Platform::subscribe(const std::vector<std::string>& topics, OnMessage on_message) {
  const auto state = std::make_shared<std::optional<Error>>();
  bool is_subscribed = false;
  CallOptions options;
  options.deadline = Millis(24 * 60 * 60 * 1000);
  TRY(const std::string id, client_->start(
                                "events.subscribe", wire::to_json([&](JsonWriter& json) {
                                  json.begin_object().key("topics").begin_array();
                                  for (const std::string& topic : topics) json.value(topic);
                                  json.end_array().end_object();
                                }),
                                [state](Result<Answer> came) {
                                  *state = came ? Error::make(Code::unavailable, "there are no events") : came.error();
                                },
                                options));
  subscriptions_[id] = std::move(on_message);
  token_streams_[id] = [&](std::string_view) { is_subscribed = true; };
  Status dispatched = ok();
  while (!is_subscribed && !*state && dispatched) dispatched = client_->dispatch(Millis(1'000));
  token_streams_.erase(id);
  if (is_subscribed) return ok();
  subscriptions_.erase(id);
  TRY(dispatched);
  return **state;
}

Status Platform::log(std::string_view level, std::string_view message) {
  TRY(client_->call("log.write", wire::to_json([&](JsonWriter& json) {
                      json.begin_object().member("level", level).member("message", message).end_object();
                    })));
  return ok();
}

}  // namespace sallyport::platform

// sallyport::platform::Platform: storage, cache, vectors, models and events for plugin authors. The same in a
// worker, where it speaks through the container's door, and on the host, where it speaks through the control door.
//
//   auto platform = sallyport::platform::init_platform();          // $SALLYPORT_DOOR, else the control door
//   if (!platform) ...                                             // no door, or another version
//   (*platform)->storage("history").write("2026-03-01", text);
//   auto answer = (*platform)->complete("hello");                  // answer->is_noop: nobody is there
//
// A Platform is one connection and belongs to one thread at a time. Nothing here throws.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/base.h"
#include "client/client.h"
#include "platform/operations.h"

namespace sallyport::platform {

class FileStore;
class MemoryCache;

// What init said about an adapter.
struct AdapterState {
  std::string state;  // "ready", "starting", "noop", "down", "failed" or "denied"
  std::string reason, implementation;
  std::vector<std::string> models;
  bool is_in_worker = false;
  std::string directory;  // of storage in a worker
  bool may_write = false;
  std::size_t max_bytes = 0;  // at once
  bool is_model = false;
  std::int64_t dimensions = 0;
  bool is_ready() const { return state == "ready"; }
};

// Every answer of an adapter that is not there says so.
struct Noop {
  bool is_noop = false;
  std::string reason;
};

// What an adapter gave. Used as the value itself; it is an empty one where nobody was there to give any.
template <typename T>
struct Given : T, Noop {
  Given() = default;
  Given(T value, Noop noop = {}) : T(std::move(value)), Noop(std::move(noop)) {}  // NOLINT(*-explicit-*)
};
template <typename T>
  requires std::is_arithmetic_v<T>
struct Given<T> : Noop {
  Given() = default;
  Given(T given, Noop noop = {}) : Noop(std::move(noop)), value(given) {}  // NOLINT(*-explicit-*)
  operator T() const { return value; }                                     // NOLINT(*-explicit-*)
  T value{};
};

struct ObjectInfo {
  std::string key;
  std::int64_t size = 0, modified_ms = 0;
};

struct Completion : Noop {
  std::string text, finish_reason;
  std::int64_t input_tokens = 0, output_tokens = 0;
  bool is_model = false;
};

struct Embeddings : Noop {
  std::vector<float> vectors;  // one after the other
  std::size_t count = 0, dimensions = 0;
  bool is_model = false;
};

struct Match {
  std::string id, metadata_json;
  double score = 0;
};

struct StoredVector {
  std::string id, metadata_json;
  std::vector<float> vector;
};

struct Ask {
  std::string model = {};  // the profile's first unless said otherwise
  std::string system = {};
  std::int64_t max_tokens = 0;
  std::optional<double> temperature = {};
};

class Platform {
 public:
  // ---- storage ----
  class Storage {
   public:
    Result<Noop> write(const std::string& key, std::string_view bytes);
    Result<Given<std::optional<std::string>>> read(const std::string& key);
    Result<Given<bool>> remove(const std::string& key);
    Result<Given<std::optional<ObjectInfo>>> stat(const std::string& key);
    Result<Given<std::vector<ObjectInfo>>> list(const std::string& prefix = {});  // all of them

   private:
    friend class Platform;
    Result<Noop> write_file(const std::string& key, std::string_view bytes);
    Result<Given<std::optional<std::string>>> read_file(const std::string& key);
    Result<Given<std::vector<ObjectInfo>>> list_files(const std::string& prefix);
    Storage(Platform& platform, std::string bucket) : platform_(platform), bucket_(std::move(bucket)) {}
    Platform& platform_;
    std::string bucket_;
  };
  Storage storage(std::string bucket = "default") { return {*this, std::move(bucket)}; }

  // ---- cache ----
  class Cache {
   public:
    using Ttl = std::optional<Millis>;
    Result<Given<std::optional<std::string>>> get(const std::string& key);
    Result<Noop> set(const std::string& key, std::string_view value, Ttl ttl = {});
    Result<Given<bool>> set_if_absent(const std::string& key, std::string_view value, Ttl ttl = {});
    Result<Given<bool>> remove(const std::string& key);
    Result<Given<std::int64_t>> clear();
    // CONFLICT if what is there is no number.
    Result<Given<std::int64_t>> incr(const std::string& key, std::int64_t by = 1, Ttl ttl = {});

   private:
    friend class Platform;
    Cache(Platform& platform, std::string space) : platform_(platform), space_(std::move(space)) {}
    Result<Given<bool>> store(std::string_view method, const std::string& key, std::string_view value, Ttl ttl);
    Platform& platform_;
    std::string space_;
  };
  Cache cache(std::string space = "default") { return {*this, std::move(space)}; }

  // ---- vectors ----
  class Vectors {
   public:
    // `vectors`: ids.size() x dimensions. `metadata_json`: an array of objects, or empty.
    Result<Noop> upsert(const std::vector<std::string>& ids, std::span<const float> vectors, std::size_t dimensions,
                        std::string_view metadata_json = {});
    Result<Given<std::vector<Match>>> search(std::span<const float> vector, std::size_t top_k = 10,
                                             std::string_view filter_json = {});
    // Those that are there, in the order of `ids`.
    Result<Given<std::vector<StoredVector>>> get(const std::vector<std::string>& ids);
    Result<Given<std::int64_t>> remove(const std::vector<std::string>& ids);
    Result<Given<std::int64_t>> count(std::string_view filter_json = {});

   private:
    friend class Platform;
    Vectors(Platform& platform, std::string space) : platform_(platform), space_(std::move(space)) {}
    Platform& platform_;
    std::string space_;
  };
  Vectors vectors(std::string space = "default") { return {*this, std::move(space)}; }

  // ---- models ----
  Result<Completion> complete(std::string_view prompt, const Ask& ask = {});
  // Each piece as it comes; false gives the rest up (CANCELLED).
  using OnToken = std::function<bool(std::string_view)>;
  Result<Completion> stream(std::string_view prompt, const OnToken& on_token, const Ask& ask = {});
  Result<Embeddings> embed(const std::vector<std::string>& texts, const std::string& model = {});

  // ---- events and log ----
  Result<Given<std::int64_t>> publish(const std::string& topic, std::string_view payload_json);
  // What comes is handed over from dispatch(), or while another call waits.
  using OnMessage = std::function<void(std::string_view topic, wire::Value payload)>;
  Status subscribe(const std::vector<std::string>& topics, OnMessage on_message);
  Status dispatch(Millis wait) { return client_->dispatch(wait); }
  Status log(std::string_view level, std::string_view message);

  // ---- what there is ----
  const AdapterState& adapter(Role role) const { return adapters_.at(role); }
  const std::string& tenant() const { return tenant_; }
  const std::string& config_hash() const { return config_hash_; }
  // Asks again what there is. CONFLICT if the configuration is another one by now.
  Status refresh();
  Client& client() { return *client_; }

  ~Platform();

 private:
  friend Result<std::unique_ptr<Platform>> init_platform(std::unique_ptr<Client> client);
  explicit Platform(std::unique_ptr<Client> client);
  Status init(bool must_be_same);
  Result<Answer> call(std::string_view method, const std::string& params);
  // With `bytes` as the value of `member`: inside the message if they are short text, as a stream otherwise.
  Result<Answer> call_with_bytes(std::string_view method, std::string_view member, std::string_view bytes,
                                 bool is_always_stream, const std::function<void(wire::JsonWriter&)>& fill);
  Result<std::string> take_bytes(wire::Value value);
  std::string ask_json(std::string_view prompt, const Ask& ask) const;
  bool is_local(Role role) const { return adapters_.at(role).is_in_worker; }
  // Whether storage in this worker can be used; one that cannot says so.
  Result<Noop> has_files() const;

  std::unique_ptr<Client> client_;
  SystemClock clock_;
  std::map<Role, AdapterState> adapters_;
  std::string tenant_, config_hash_;
  // placement = "worker"
  std::unique_ptr<MemoryCache> local_cache_;
  std::unique_ptr<FileStore> local_store_;
  std::map<std::string, OnMessage, std::less<>> subscriptions_;  // by request
  std::map<std::string, std::function<void(std::string_view)>, std::less<>> token_streams_;
};

// Connects and agrees on the protocol. UNAVAILABLE if there is no door, CONFLICT for another version.
Result<std::unique_ptr<Platform>> init_platform();
Result<std::unique_ptr<Platform>> init_platform(std::unique_ptr<Client> client);

}  // namespace sallyport::platform

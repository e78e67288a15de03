// The role `storage` of a Platform: through the door, or on files of the worker's own.
#include "platform/file_store.h"
#include "platform/limits.h"
#include "platform/platform.h"

namespace sallyport::platform {
namespace {

using wire::JsonWriter;
using wire::Value;

constexpr std::size_t kPieceBytes = 256U << 10;

ObjectInfo object_of(Value value) {
  return {std::string(value.get("key").as_string().value_or("")), value.get("size").as_int().value_or(0),
          value.get("modified_ms").as_int().value_or(0)};
}

ObjectInfo object_of(const Object& object) { return {object.key, object.size, object.modified_ms}; }

std::string object_params(const std::string& bucket, const std::string& key) {
  return wire::to_json(
      [&](JsonWriter& json) { json.begin_object().member("bucket", bucket).member("key", key).end_object(); });
}

using Text = Given<std::optional<std::string>>;

Noop noop_of(const Answer& answer) {
  const Value result = answer.value();
  return {result.get("noop").as_bool().value_or(false), std::string(result.get("reason").as_string().value_or(""))};
}

bool is_found(const Answer& answer) { return answer.value().get("found").as_bool().value_or(false); }

}  // namespace

Result<Noop> Platform::has_files() const {
  const AdapterState& state = adapters_.at(Role::storage);
  if (state.is_ready()) return Noop();
  if (state.state == "noop") return Noop{true, state.reason};
  return Error::make(Code::unavailable, "storage cannot be used: " + state.reason);
}

// ---- on files of the worker's own ----

Result<Noop> Platform::Storage::write_file(const std::string& key, std::string_view bytes) {
  const AdapterState& state = platform_.adapter(Role::storage);
  TRY(Noop noop, platform_.has_files());
  if (noop.is_noop) return noop;
  if (!state.may_write) return Error::make(Code::policy_denied, "the profile grants storage for reading only");
  if (bytes.size() > state.max_bytes) {
    return Error::make(Code::payload_too_large,
                       "the profile grants at most " + std::to_string(state.max_bytes) + " bytes at once");
  }
  TRY(FileStore::Upload upload, platform_.local_store_->begin({platform_.tenant_, bucket_}, key));
  const Status written = FileStore::write(upload, bytes);
  const auto grown = written ? FileStore::commit(upload) : Result<std::int64_t>(written.error());
  if (!grown) {
    FileStore::abandon(upload);
    return grown.error();
  }
  return Noop();
}

Result<Text> Platform::Storage::read_file(const std::string& key) {
  TRY(Noop noop, platform_.has_files());
  if (noop.is_noop) return Text({}, std::move(noop));
  TRY(const auto found, platform_.local_store_->find({platform_.tenant_, bucket_}, key));
  if (!found) return Text();
  std::string bytes;
  for (;;) {
    TRY(const std::string piece, FileStore::read(found->file.get(), kPieceBytes));
    if (piece.empty()) return Text(std::move(bytes));
    bytes += piece;
  }
}

Result<Given<std::vector<ObjectInfo>>> Platform::Storage::list_files(const std::string& prefix) {
  Given<std::vector<ObjectInfo>> all;
  TRY(static_cast<Noop&>(all), platform_.has_files());
  for (bool has_more = !all.is_noop; has_more;) {
    TRY(const FileStore::Listing listing,
        platform_.local_store_->list({platform_.tenant_, bucket_}, prefix, all.empty() ? "" : all.back().key,
                                     std::size_t{kMaxListed}));
    for (const Object& object : listing.objects) all.push_back(object_of(object));
    has_more = listing.has_more && !listing.objects.empty();
  }
  return all;
}

// ---- either way ----

Result<Noop> Platform::Storage::write(const std::string& key, std::string_view bytes) {
  if (platform_.is_local(Role::storage)) return write_file(key, bytes);
  TRY(const Answer answer, platform_.call_with_bytes("storage.write", "value", bytes, false, [&](JsonWriter& json) {
    json.member("bucket", bucket_).member("key", key);
  }));
  return noop_of(answer);
}

Result<Text> Platform::Storage::read(const std::string& key) {
  if (platform_.is_local(Role::storage)) return read_file(key);
  TRY(const Answer answer, platform_.call("storage.read", object_params(bucket_, key)));
  if (!is_found(answer)) return Text({}, noop_of(answer));
  TRY(std::string bytes, platform_.take_bytes(answer.value().get("value")));
  return Text(std::move(bytes));
}

Result<Given<bool>> Platform::Storage::remove(const std::string& key) {
  if (platform_.is_local(Role::storage)) {
    TRY(Noop noop, platform_.has_files());
    if (noop.is_noop) return Given<bool>(false, std::move(noop));
    if (!platform_.adapter(Role::storage).may_write) {
      return Error::make(Code::policy_denied, "the profile grants storage for reading only");
    }
    TRY(const auto grown, platform_.local_store_->remove({platform_.tenant_, bucket_}, key));
    return Given<bool>(grown.has_value());
  }
  TRY(const Answer answer, platform_.call("storage.delete", object_params(bucket_, key)));
  return Given<bool>(answer.value().get("deleted").as_bool().value_or(false), noop_of(answer));
}

Result<Given<std::optional<ObjectInfo>>> Platform::Storage::stat(const std::string& key) {
  using Info = Given<std::optional<ObjectInfo>>;
  if (platform_.is_local(Role::storage)) {
    TRY(Noop noop, platform_.has_files());
    if (noop.is_noop) return Info({}, std::move(noop));
    TRY(const auto found, platform_.local_store_->find({platform_.tenant_, bucket_}, key));
    return Info(found ? std::optional(object_of(found->object)) : std::nullopt);
  }
  TRY(const Answer answer, platform_.call("storage.stat", object_params(bucket_, key)));
  if (!is_found(answer)) return Info({}, noop_of(answer));
  ObjectInfo info = object_of(answer.value());
  info.key = key;
  return Info(std::move(info));
}

Result<Given<std::vector<ObjectInfo>>> Platform::Storage::list(const std::string& prefix) {
  if (platform_.is_local(Role::storage)) return list_files(prefix);
  Given<std::vector<ObjectInfo>> all;
  for (;;) {
    TRY(const Answer answer,
        platform_.call(
            "storage.list", wire::to_json([&](JsonWriter& json) {
              json.begin_object().member("bucket", bucket_).member("prefix", prefix).member("limit", kMaxListed);
              if (!all.empty()) json.member("after", all.back().key);
              json.end_object();
            })));
    static_cast<Noop&>(all) = noop_of(answer);
    for (const Value object : answer.value().get("objects").items()) all.push_back(object_of(object));
    if (!answer.value().get("more").as_bool().value_or(false)) return all;
  }
}

}  // namespace sallyport::platform

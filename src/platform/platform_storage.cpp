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

bool is_found(const Answer& answer) { return answer.value().get("found").as_bool().value_or(false); }

}  // namespace

Result<bool> Platform::has_files() const {
  const AdapterState& state = adapters_.at(Role::storage);
  if (state.is_ready()) return true;
  if (state.state == "noop") return false;
  return Error::make(Code::unavailable, "storage cannot be used: " + state.reason);
}

// ---- on files of the worker's own ----

Result<Noop> Platform::Storage::write_file(const std::string& key, std::string_view bytes) {
  const AdapterState& state = platform_.adapter(Role::storage);
  TRY(const bool is_there, platform_.has_files());
  if (!is_there) return Noop{true, state.reason};
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

Result<std::optional<std::string>> Platform::Storage::read_file(const std::string& key) {
  TRY(const bool is_there, platform_.has_files());
  if (!is_there) return std::optional<std::string>();
  TRY(const auto found, platform_.local_store_->find({platform_.tenant_, bucket_}, key));
  if (!found) return std::optional<std::string>();
  std::string bytes;
  for (;;) {
    TRY(const std::string piece, FileStore::read(found->file.get(), kPieceBytes));
    if (piece.empty()) return std::optional<std::string>(std::move(bytes));
    bytes += piece;
  }
}

Result<std::vector<ObjectInfo>> Platform::Storage::list_files(const std::string& prefix) {
  std::vector<ObjectInfo> all;
  TRY(const bool is_there, platform_.has_files());
  for (bool has_more = is_there; has_more;) {
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
  const Value result = answer.value();
  return Noop{result.get("noop").as_bool().value_or(false), std::string(result.get("reason").as_string().value_or(""))};
}

Result<std::optional<std::string>> Platform::Storage::read(const std::string& key) {
  if (platform_.is_local(Role::storage)) return read_file(key);
  TRY(const Answer answer, platform_.call("storage.read", object_params(bucket_, key)));
  if (!is_found(answer)) return std::optional<std::string>();
  TRY(std::string bytes, platform_.take_bytes(answer.value().get("value")));
  return std::optional<std::string>(std::move(bytes));
}

Result<bool> Platform::Storage::remove(const std::string& key) {
  if (platform_.is_local(Role::storage)) {
    TRY(const bool is_there, platform_.has_files());
    if (!is_there) return false;
    if (!platform_.adapter(Role::storage).may_write) {
      return Error::make(Code::policy_denied, "the profile grants storage for reading only");
    }
    TRY(const auto grown, platform_.local_store_->remove({platform_.tenant_, bucket_}, key));
    return grown.has_value();
  }
  TRY(const Answer answer, platform_.call("storage.delete", object_params(bucket_, key)));
  return answer.value().get("deleted").as_bool().value_or(false);
}

Result<std::optional<ObjectInfo>> Platform::Storage::stat(const std::string& key) {
  if (platform_.is_local(Role::storage)) {
    TRY(const bool is_there, platform_.has_files());
    if (!is_there) return std::optional<ObjectInfo>();
    TRY(const auto found, platform_.local_store_->find({platform_.tenant_, bucket_}, key));
    return found ? std::optional(object_of(found->object)) : std::nullopt;
  }
  TRY(const Answer answer, platform_.call("storage.stat", object_params(bucket_, key)));
  if (!is_found(answer)) return std::optional<ObjectInfo>();
  ObjectInfo info = object_of(answer.value());
  info.key = key;
  return std::optional<ObjectInfo>(std::move(info));
}

Result<std::vector<ObjectInfo>> Platform::Storage::list(const std::string& prefix) {
  if (platform_.is_local(Role::storage)) return list_files(prefix);
  std::vector<ObjectInfo> all;
  for (;;) {
    TRY(const Answer answer,
        platform_.call(
            "storage.list", wire::to_json([&](JsonWriter& json) {
              json.begin_object().member("bucket", bucket_).member("prefix", prefix).member("limit", kMaxListed);
              if (!all.empty()) json.member("after", all.back().key);
              json.end_object();
            })));
    for (const Value object : answer.value().get("objects").items()) all.push_back(object_of(object));
    if (!answer.value().get("more").as_bool().value_or(false)) return all;
  }
}

}  // namespace sallyport::platform

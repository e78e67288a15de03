#include "adapters/storage_files.h"

#include "adapters/bulk.h"
#include "adapters/offload.h"
#include "platform/file_store.h"
#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

using platform::FileStore;
using platform::Object;

constexpr std::size_t kPieceBytes = 256U << 10;
constexpr std::int64_t kListLimit = 100;

void write_object(wire::JsonWriter& json, const Object& object) {
  json.member("size", object.size).member("modified_ms", object.modified_ms);
}

class FileStorage final : public Adapter {
 public:
  FileStorage(const std::string& directory, Machinery& machinery)
      : store_(std::make_shared<FileStore>(directory)), disk_(std::make_shared<Offload>(machinery.sessions.loop())) {}

  Task<Status> probe() override {
    co_return co_await disk_->run([this] { return store_->open(); });
  }

  bool takes_turns() const override { return true; }
  Task<Result<std::int64_t>> stored_bytes(const std::string& tenant) override {
    co_return co_await disk_->run([&] { return store_->stored_bytes(tenant); });
  }
  Task<Status> forget(const std::string& tenant) override {
    co_return co_await disk_->run([&] { return store_->forget(tenant); });
  }

  Task<ipc::Reply> handle(std::string_view verb, ipc::Call& call) override {
    CO_TRY(const Scope scope, scope_of(call, "bucket"));
    const std::string key(call.params().get("key").as_string().value_or(""));
    if (verb == "write") co_return co_await write(call, scope, key);
    if (verb == "read" || verb == "stat") co_return co_await read(call, scope, key, verb == "read");
    if (verb == "delete") co_return co_await remove(call, scope, key);
    if (verb == "list") co_return co_await list(call, scope);
    co_return Error::make(Code::method_not_found, "no such method");
  }

 private:
  Task<ipc::Reply> write(ipc::Call& call, const Scope& scope, const std::string& key) {
    auto begun = co_await disk_->run([&] { return store_->begin(scope, key); });
    if (!begun) co_return nothing_stored(std::move(begun).error());
    FileStore::Upload& upload = *begun;
    Status written = co_await write_all(call, upload);
    if (written && call.is_given_up()) written = call.why_given_up();
    if (!written) {
      co_await disk_->run([&] {
        FileStore::abandon(upload);
        return true;
      });
      co_return nothing_stored(std::move(written).error());
    }
    const Result<std::int64_t> grown = co_await disk_->run([&] {
      auto committed = store_->commit(upload);
      if (!committed) FileStore::abandon(upload);
      return committed;
    });
    if (!grown) co_return grown.error();
    co_return call.result([&](wire::JsonWriter& json) {
      json.begin_object().member("size", upload.size).member("stored_bytes", *grown).end_object();
    });
  }

  Task<Status> write_all(ipc::Call& call, FileStore::Upload& upload) {
    const wire::Value value = call.params().get("value");
    if (const auto text = value.as_string())
      co_return co_await disk_->run([&] { return store_->write(upload, *text); });
    const std::int64_t said = call.params().get("size").as_int().value_or(0);
    CO_TRY(const auto stream, call.take_stream(value, "params.value"));
    for (;;) {
      CO_TRY(const Bytes piece, co_await stream->read());
      if (piece.empty()) co_return ok();
      if (upload.size + static_cast<std::int64_t>(piece.size()) > said) {
        co_return Error::make(Code::payload_too_large, "the stream brings more than was said");
      }
      CO_TRY(co_await disk_->run([&] { return store_->write(upload, as_text(piece.view())); }));
    }
  }

  Task<ipc::Reply> read(ipc::Call& call, const Scope& scope, const std::string& key, bool wants_content) {
    CO_TRY(auto opened, co_await disk_->run([&] { return store_->find(scope, key); }));
    if (!opened) co_return call.result([](wire::JsonWriter& json) { json.raw(R"({"found":false})"); });
    const Object object = opened->object;
    const auto members = [&](wire::JsonWriter& json) {
      json.member("found", true);
      write_object(json, object);
    };
    if (!wants_content) {
      co_return call.result([&](wire::JsonWriter& json) {
        json.begin_object();
        members(json);
        json.end_object();
      });
    }
    const bool wants_stream = call.params().get("stream").as_bool().value_or(false);
    if (!wants_stream && static_cast<std::size_t>(object.size) <= platform::kInlineBytes) {
      CO_TRY(std::string bytes,
             co_await disk_->run([&] { return FileStore::read(opened->file.get(), platform::kInlineBytes); }));
      co_return reply_with_value(call, "value", std::move(bytes), members);
    }
    CO_TRY(const auto stream, call.open_stream());
    call.after_reply([file = std::make_shared<UniqueFd>(std::move(opened->file)), stream, disk = disk_] {
      send_file(file, stream, disk);
    });
    co_return call.result([&](wire::JsonWriter& json) {
      json.begin_object();
      members(json);
      json.key("value").begin_object().member("$stream", stream->number()).end_object().end_object();
    });
  }

  static Fire send_file(std::shared_ptr<UniqueFd> file, std::shared_ptr<ipc::OutStream> to,
                        std::shared_ptr<Offload> disk) {
    for (;;) {
      const auto piece = co_await disk->run([&] { return FileStore::read(file->get(), kPieceBytes); });
      if (!piece) {
        to->reset(piece.error());
        co_return;
      }
      if (piece->empty()) {
        to->finish();
        co_return;
      }
      const Status sent = co_await to->write(as_bytes(*piece));
      if (!sent) co_return;
    }
  }

  Task<ipc::Reply> remove(ipc::Call& call, const Scope& scope, const std::string& key) {
    CO_TRY(const auto grown, co_await disk_->run([&] { return store_->remove(scope, key); }));
    co_return call.result([&](wire::JsonWriter& json) {
      json.begin_object().member("deleted", grown.has_value()).member("stored_bytes", grown.value_or(0)).end_object();
    });
  }

  Task<ipc::Reply> list(ipc::Call& call, const Scope& scope) {
    const std::string prefix(call.params().get("prefix").as_string().value_or(""));
    const std::string after(call.params().get("after").as_string().value_or(""));
    const auto limit = static_cast<std::size_t>(call.params().get("limit").as_int().value_or(kListLimit));
    CO_TRY(const auto listing, co_await disk_->run([&] { return store_->list(scope, prefix, after, limit); }));
    co_return call.result([&](wire::JsonWriter& json) {
      json.begin_object().key("objects").begin_array();
      for (const Object& object : listing.objects) {
        json.begin_object().member("key", object.key);
        write_object(json, object);
        json.end_object();
      }
      json.end_array().member("more", listing.has_more).end_object();
    });
  }

  std::shared_ptr<FileStore> store_;
  std::shared_ptr<Offload> disk_;
};

}  // namespace

std::unique_ptr<Adapter> make_file_storage(const std::string& directory, Machinery& machinery) {
  return std::make_unique<FileStorage>(directory, machinery);
}

}  // namespace sallyport::adapters

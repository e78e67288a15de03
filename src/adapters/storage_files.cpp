#include "adapters/storage_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "adapters/bulk.h"
#include "adapters/offload.h"
#include "os/files.h"
#include "platform/limits.h"

namespace sallyport::adapters {
namespace {

constexpr std::size_t kPieceBytes = 256U << 10;
constexpr std::int64_t kListLimit = 100;
constexpr const char* kTemporary = ".tmp.";  // no key's name begins with a dot

// Beneath a directory, without following any link. openat2 may ask to be tried again while names change.
UniqueFd open_beneath(int directory, const std::string& name, int flags, mode_t mode = 0) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = -1;
  for (int tries = 0; tries < 16; ++tries) {
    fd = ::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN) break;
  }
  return UniqueFd(static_cast<int>(fd));
}

Error io_error(const char* what) { return Error::from_errno(what, errno); }

Result<UniqueFd> open_directory(int parent, const std::string& name, bool creates) {
  UniqueFd directory = open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
  if (!directory && errno == ENOENT && creates) {
    if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) return io_error("cannot make a directory");
    if (::fsync(parent) != 0) return io_error("cannot sync a directory");
    directory = open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
  }
  if (!directory && errno == ENOENT) return Error::make(Code::not_found, "nothing is stored there");
  if (!directory) return io_error("cannot open a directory");
  return directory;
}

struct Object {
  std::string key;
  std::int64_t size = 0, modified_ms = 0;
};

Object object_of(std::string key, const struct stat& info) {
  return {std::move(key), info.st_size, info.st_mtim.tv_sec * 1000 + info.st_mtim.tv_nsec / 1'000'000};
}

// Everything that touches the disk; used on one thread only.
class FileStore {
 public:
  explicit FileStore(std::string path) : path_(std::move(path)) {}

  Status open() {
    if (root_) return ok();
    TRY(root_, os::open_private_directory(path_));
    remove_leftovers();
    return ok();
  }

  Result<UniqueFd> bucket(const Scope& scope, bool creates) {
    TRY(open());
    const auto tenant = encode_name(scope.tenant), name = encode_name(scope.name);
    if (!tenant || !name) return Error::invalid_param("params.bucket", "is too long");
    TRY(const UniqueFd directory, open_directory(root_.get(), *tenant, creates));
    return open_directory(directory.get(), *name, creates);
  }

  struct Upload {
    UniqueFd directory, file;
    std::string temporary, name;
    std::int64_t size = 0;
  };
  Result<Upload> begin(const Scope& scope, const std::string& key) {
    Upload upload;
    const auto name = encode_name(key);
    if (!name) return Error::invalid_param("params.key", "is too long");
    TRY(upload.directory, bucket(scope, true));
    upload.name = *name;
    upload.temporary = kTemporary + std::to_string(++uploads_);
    upload.file = open_beneath(upload.directory.get(), upload.temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (!upload.file) return io_error("cannot write");
    return upload;
  }
  Status write(Upload& upload, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(upload.file.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return io_error("cannot write");
      bytes.remove_prefix(static_cast<std::size_t>(count));
      upload.size += count;
    }
    return ok();
  }
  // By how much the store has grown.
  Result<std::int64_t> commit(Upload& upload) {
    struct stat old{};
    const bool is_replaced = ::fstatat(upload.directory.get(), upload.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (::fsync(upload.file.get()) != 0) return io_error("cannot sync");
    if (::renameat(upload.directory.get(), upload.temporary.c_str(), upload.directory.get(), upload.name.c_str()) !=
        0) {
      return io_error("cannot write");
    }
    if (::fsync(upload.directory.get()) != 0) return io_error("cannot sync a directory");
    return upload.size - (is_replaced ? old.st_size : 0);
  }
  static void abandon(const Upload& upload) { ::unlinkat(upload.directory.get(), upload.temporary.c_str(), 0); }

  struct Opened {
    UniqueFd file;
    Object object;
  };
  Result<std::optional<Opened>> find(const Scope& scope, const std::string& key) {
    const auto name = encode_name(key);
    if (!name) return Error::invalid_param("params.key", "is too long");
    auto directory = bucket(scope, false);
    if (!directory && directory.error().code == Code::not_found) return std::optional<Opened>();
    TRY(const UniqueFd found, std::move(directory));
    Opened opened;
    opened.file = open_beneath(found.get(), *name, O_RDONLY | O_NONBLOCK);
    if (!opened.file && errno == ENOENT) return std::optional<Opened>();
    struct stat info{};
    if (!opened.file || ::fstat(opened.file.get(), &info) != 0) return io_error("cannot read");
    // Somebody put something else there: it is nothing of ours.
    if (!S_ISREG(info.st_mode)) return Error::make(Code::conflict, "what is there is no object");
    opened.object = object_of(key, info);
    return std::optional<Opened>(std::move(opened));
  }
  static Result<std::string> read(int file, std::size_t most) {
    std::string bytes(most, '\0');
    ssize_t count = 0;
    do {
      count = ::read(file, bytes.data(), bytes.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) return io_error("cannot read");
    bytes.resize(static_cast<std::size_t>(count));
    return bytes;
  }

  // By how much the store has grown: zero or less.
  Result<std::optional<std::int64_t>> remove(const Scope& scope, const std::string& key) {
    TRY(const auto opened, find(scope, key));
    if (!opened) return std::optional<std::int64_t>();
    TRY(const UniqueFd directory, bucket(scope, false));
    if (::unlinkat(directory.get(), encode_name(key)->c_str(), 0) != 0) return io_error("cannot delete");
    if (::fsync(directory.get()) != 0) return io_error("cannot sync a directory");
    return std::optional<std::int64_t>(-opened->object.size);
  }

  struct Listing {
    std::vector<Object> objects;
    bool has_more = false;
  };
  Result<Listing> list(const Scope& scope, const std::string& prefix, const std::string& after, std::size_t limit) {
    Listing listing;
    auto directory = bucket(scope, false);
    if (!directory && directory.error().code == Code::not_found) return listing;
    TRY(UniqueFd found, std::move(directory));
    std::vector<std::string> keys;
    TRY(each_name(found.get(), [&](const std::string& name) {
      const auto key = decode_name(name);
      if (key && key->starts_with(prefix) && *key > after) keys.push_back(*key);
    }));
    std::sort(keys.begin(), keys.end());
    listing.has_more = keys.size() > limit;
    keys.resize(std::min(keys.size(), limit));
    for (const std::string& key : keys) {
      struct stat info{};
      if (::fstatat(found.get(), encode_name(key)->c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (S_ISREG(info.st_mode)) listing.objects.push_back(object_of(key, info));
    }
    return listing;
  }

 private:
  static Status each_name(int directory, const std::function<void(const std::string&)>& visit) {
    UniqueFd own = open_beneath(directory, ".", O_RDONLY | O_DIRECTORY);
    DIR* const listing = own ? ::fdopendir(own.get()) : nullptr;
    if (listing == nullptr) return io_error("cannot list");
    [[maybe_unused]] const int now_owned = own.release();
    while (const dirent* entry = ::readdir(listing)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") visit(name);
    }
    ::closedir(listing);
    return ok();
  }

  // Writes that a crash interrupted.
  void remove_leftovers() {
    const auto descend = [](int parent, const auto& visit) {
      [[maybe_unused]] const Status listed = each_name(parent, [&](const std::string& name) {
        const UniqueFd below = open_beneath(parent, name, O_RDONLY | O_DIRECTORY);
        if (below) visit(below.get());
      });
    };
    descend(root_.get(), [&](int tenant) {
      descend(tenant, [&](int directory) {
        [[maybe_unused]] const Status listed = each_name(directory, [&](const std::string& name) {
          if (name.starts_with(kTemporary)) ::unlinkat(directory, name.c_str(), 0);
        });
      });
    });
  }

  std::string path_;
  UniqueFd root_;
  std::uint64_t uploads_ = 0;
};

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
    CO_TRY(FileStore::Upload upload, co_await disk_->run([&] { return store_->begin(scope, key); }));
    Status written = co_await write_all(call, upload);
    if (written && call.is_answered()) written = Error::make(Code::cancelled, "the write was given up");
    if (!written) {
      co_await disk_->run([&] {
        FileStore::abandon(upload);
        return true;
      });
      co_return std::move(written).error();
    }
    CO_TRY(const std::int64_t grown, co_await disk_->run([&] { return store_->commit(upload); }));
    co_return call.result([&](wire::JsonWriter& json) {
      json.begin_object().member("size", upload.size).member("stored_bytes", grown).end_object();
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

// Objects as files: <directory>/<tenant>/<bucket>/<key>, each name encoded so that it is one name. The same on the host
// and in a worker.
//
// A write is whole or not at all: it goes to a temporary name, is synced, and takes the key's name at the end.
// Nothing here follows a symbolic link or leaves the directory. Several processes may use one directory. Blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "platform/operations.h"

namespace sallyport::platform {

struct Object {
  std::string key;
  std::int64_t size = 0, modified_ms = 0;
};

// Used on one thread only.
class FileStore {
 public:
  explicit FileStore(std::string path) : path_(std::move(path)) {}

  // Makes the directory if it is not there, and removes what interrupted writes left in it.
  Status open();

  struct Upload {
    UniqueFd tenant, directory, file;
    std::string bucket, temporary, name;
    std::int64_t size = 0;
  };
  Result<Upload> begin(const Scope& scope, const std::string& key);
  static Status write(Upload& upload, std::string_view bytes);
  // By how much the store has grown: an object counts its content, its key and kObjectCost.
  static Result<std::int64_t> commit(Upload& upload);
  static void abandon(const Upload& upload);

  struct Opened {
    UniqueFd file;
    Object object;
  };
  Result<std::optional<Opened>> find(const Scope& scope, const std::string& key);
  static Result<std::string> read(int file, std::size_t most);
  // By how much the store has grown: zero or less.
  Result<std::optional<std::int64_t>> remove(const Scope& scope, const std::string& key);

  // All that a tenant has.
  Result<std::int64_t> stored_bytes(const std::string& tenant);
  Status forget(const std::string& tenant);

  struct Listing {
    std::vector<Object> objects;
    bool has_more = false;
  };
  Result<Listing> list(const Scope& scope, const std::string& prefix, const std::string& after, std::size_t limit);

 private:
  struct Bucket {
    UniqueFd tenant, directory;
    std::string name;
  };
  Result<Bucket> bucket(const Scope& scope, bool creates);
  void remove_leftovers() const;

  std::string path_;
  UniqueFd root_;
};

// A key as a file name, and back. Nothing if the name would be too long, or is none of ours.
std::optional<std::string> encode_name(std::string_view key);
std::optional<std::string> decode_name(std::string_view name);

}  // namespace sallyport::platform

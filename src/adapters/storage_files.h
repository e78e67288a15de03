// The role `storage` on files: <directory>/<tenant>/<bucket>/<key>, each name encoded so that it is one name.
//
// A write is whole or not at all: it goes to a temporary name, is synced, and takes the key's name at the end.
// Nothing here follows a symbolic link or leaves the directory.
#pragma once

#include <memory>
#include <string>

#include "adapters/adapter.h"

namespace sallyport::adapters {

std::unique_ptr<Adapter> make_file_storage(const std::string& directory, Machinery& machinery);

// A key as a file name, and back. Nothing if the name would be too long, or is none of ours.
std::optional<std::string> encode_name(std::string_view key);
std::optional<std::string> decode_name(std::string_view name);

}  // namespace sallyport::adapters

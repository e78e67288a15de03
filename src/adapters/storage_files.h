// The role `storage` on files; see platform/file_store.h.
#pragma once

#include <memory>
#include <string>

#include "adapters/adapter.h"

namespace sallyport::adapters {

std::unique_ptr<Adapter> make_file_storage(const std::string& directory, Machinery& machinery);

}  // namespace sallyport::adapters

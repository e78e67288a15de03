// The role `vector` in a SQLite file: exact search by cosine over all vectors of a namespace.
#pragma once

#include <memory>
#include <string>

#include "adapters/adapter.h"

namespace sallyport::adapters {

std::unique_ptr<Adapter> make_sqlite_vectors(const std::string& directory, Machinery& machinery);

}  // namespace sallyport::adapters

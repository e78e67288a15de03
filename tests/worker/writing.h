// What tests of writing share.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "worker/write.h"

namespace sallyport::worker {

inline WriteRequest write_request(std::string path, std::string_view content) {
  WriteRequest write;
  write.path = std::move(path);
  write.content = content;
  return write;
}

inline std::size_t names_in(const std::string& directory) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

}  // namespace sallyport::worker

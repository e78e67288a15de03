// Errors that say which path they are about, as the caller wrote it: never a path that it may not know.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sallyport::worker {

// `field` is the parameter that holds the path, where it is not `path`.
inline Error about(std::string_view path, Error error, std::string_view field = "path") {
  constexpr std::string_view kField = "params.path";
  switch (error.code) {
    case Code::invalid_params:
      // Whoever resolves a path calls it by its usual name.
      for (std::string* text : {&error.message, &error.details_json}) {
        const std::size_t at = text->find(kField);
        if (at != std::string::npos) text->replace(at, kField.size(), "params." + std::string(field));
      }
      return error;
    case Code::timeout:
    case Code::cancelled:
      return error;
    default:
      error.message.insert(0, "'" + std::string(path) + "': ");
      return error;
  }
}

template <typename T>
Result<T> about(std::string_view path, Result<T> result, std::string_view field = "path") {
  if (result) return result;
  return about(path, std::move(result).error(), field);
}

}  // namespace sallyport::worker

// The names that git gives to contents. Here they tell whether a file is what git has stored, not who made it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sallyport::sandbox {

constexpr std::size_t kSha1Bytes = 20;
constexpr std::size_t kSha256Bytes = 32;

// What git calls a file with this content, in a repository whose names have that many bytes: one of the two above.
std::string blob_name(std::string_view content, std::size_t name_bytes);

}  // namespace sallyport::sandbox

// The hashes that git names objects by. Here they tell whether a file is what git has stored, not who made it; they are
// our own code because a sandbox's maker is copied at every launch and should carry no library for it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sallyport::sandbox {

constexpr std::size_t kSha1Bytes = 20;
constexpr std::size_t kSha256Bytes = 32;

std::string sha1(std::string_view text);    // 20 bytes
std::string sha256(std::string_view text);  // 32 bytes

// What git calls a file with this content, in a repository whose names have that many bytes.
std::string blob_name(std::string_view content, std::size_t name_bytes);

}  // namespace sallyport::sandbox

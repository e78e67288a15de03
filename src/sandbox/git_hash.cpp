// The plain functions and not OpenSSL's provider machinery, as in wire/crypto.cpp.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "sandbox/git_hash.h"

#include <openssl/sha.h>

namespace sallyport::sandbox {

std::string blob_name(std::string_view content, std::size_t name_bytes) {
  std::string head = "blob " + std::to_string(content.size());
  head.push_back('\0');
  std::string name(name_bytes, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(name.data());
  if (name_bytes == kSha1Bytes) {
    SHA_CTX hash;
    ::SHA1_Init(&hash);
    for (const std::string_view part : {std::string_view(head), content})
      ::SHA1_Update(&hash, part.data(), part.size());
    ::SHA1_Final(out, &hash);
  } else {
    SHA256_CTX hash;
    ::SHA256_Init(&hash);
    for (const std::string_view part : {std::string_view(head), content}) {
      ::SHA256_Update(&hash, part.data(), part.size());
    }
    ::SHA256_Final(out, &hash);
  }
  return name;
}

}  // namespace sallyport::sandbox

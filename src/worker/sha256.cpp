#include "worker/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <cstdlib>

#include "base/bytes.h"

namespace sallyport::worker {

Sha256::Sha256() {
  // The container's view of openssl.cnf must not decide what code a worker loads.
  static const int kInitialised = ::OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  context_ = ::EVP_MD_CTX_new();
  // Only an exhausted or broken library fails here, and a wrong hash is worse than no worker.
  if (kInitialised != 1 || context_ == nullptr || ::EVP_DigestInit_ex(context_, ::EVP_sha256(), nullptr) != 1)
    std::abort();
}

Sha256::~Sha256() { ::EVP_MD_CTX_free(context_); }

void Sha256::update(std::string_view bytes) {
  if (::EVP_DigestUpdate(context_, bytes.data(), bytes.size()) != 1) std::abort();
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  if (::EVP_DigestFinal_ex(context_, digest.data(), nullptr) != 1) std::abort();
  return to_hex(digest);
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace sallyport::worker

#include "wire/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstdlib>

namespace sallyport::wire {

Digest sha256(ByteView data) {
  Digest digest{};
  unsigned length = 0;
  // Fails only without memory: nothing useful can be answered then.
  if (EVP_Digest(data.data(), data.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1) std::abort();
  return digest;
}

Digest hmac_sha256(ByteView key, ByteView data) {
  Digest digest{};
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), data.data(), data.size(), digest.data(), &length) ==
      nullptr) {
    std::abort();
  }
  return digest;
}

bool constant_time_equal(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace sallyport::wire

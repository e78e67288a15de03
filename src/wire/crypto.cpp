// The plain functions and not OpenSSL's provider machinery (EVP): it costs every program that hashes a
// megabyte, thousands of relocations and a look at openssl.cnf, which must not decide what code is loaded.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "wire/crypto.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <new>

namespace sallyport::wire {
namespace {

SHA256_CTX* context(std::array<std::uint8_t, 112>& state) {
  static_assert(sizeof(SHA256_CTX) == sizeof state && alignof(SHA256_CTX) <= 8);
  return std::launder(reinterpret_cast<SHA256_CTX*>(state.data()));
}

}  // namespace

Sha256::Sha256() {
  new (state_.data()) SHA256_CTX;
  ::SHA256_Init(context(state_));
}

void Sha256::update(ByteView data) { ::SHA256_Update(context(state_), data.data(), data.size()); }

Digest Sha256::finish() {
  Digest digest{};
  ::SHA256_Final(digest.data(), context(state_));
  return digest;
}

Digest sha256(ByteView data) {
  Sha256 hash;
  hash.update(data);
  return hash.finish();
}

HmacSha256::HmacSha256(ByteView key) {
  static_assert(sizeof pad_ == SHA256_CBLOCK);
  const Digest short_key = key.size() > pad_.size() ? sha256(key) : Digest{};
  if (key.size() > pad_.size()) key = short_key;
  std::copy(key.begin(), key.end(), pad_.begin());
  for (std::uint8_t& byte : pad_) byte ^= 0x36;
  inner_.update(pad_);
}

HmacSha256::~HmacSha256() { ::OPENSSL_cleanse(pad_.data(), pad_.size()); }

Digest HmacSha256::finish() {
  for (std::uint8_t& byte : pad_) byte ^= 0x36 ^ 0x5c;
  Sha256 outer;
  outer.update(pad_);
  outer.update(inner_.finish());
  return outer.finish();
}

Digest hmac_sha256(ByteView key, ByteView data) {
  HmacSha256 mac(key);
  mac.update(data);
  return mac.finish();
}

bool constant_time_equal(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace sallyport::wire

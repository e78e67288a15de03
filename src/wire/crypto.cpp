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

constexpr std::size_t kBlock = SHA256_CBLOCK;

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

// RFC 2104.
Digest hmac_sha256(ByteView key, ByteView data) {
  std::array<std::uint8_t, kBlock> pad{};
  const Digest short_key = key.size() > kBlock ? sha256(key) : Digest{};
  if (key.size() > kBlock) key = short_key;
  std::copy(key.begin(), key.end(), pad.begin());
  for (std::uint8_t& byte : pad) byte ^= 0x36;
  Sha256 inner;
  inner.update(pad);
  inner.update(data);
  const Digest digest = inner.finish();
  for (std::uint8_t& byte : pad) byte ^= 0x36 ^ 0x5c;
  Sha256 outer;
  outer.update(pad);
  outer.update(digest);
  ::OPENSSL_cleanse(pad.data(), pad.size());
  return outer.finish();
}

bool constant_time_equal(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace sallyport::wire

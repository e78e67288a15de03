#include "ledger/signing.h"

#include <sodium.h>

#include <array>
#include <cstring>

#include "os/files.h"

namespace sallyport::ledger {
namespace {

using SecretKey = std::array<std::uint8_t, crypto_sign_SECRETKEYBYTES>;

SecretKey secret_key(ByteView seed, PublicKey& its_public) {
  SecretKey secret;
  ::crypto_sign_seed_keypair(its_public.data(), secret.data(), seed.data());
  return secret;
}

}  // namespace

SigningKey::SigningKey(const Seed& seed) : seed_(seed) {
  SecretKey secret = secret_key(seed_, public_);
  ::sodium_memzero(secret.data(), secret.size());
}

SigningKey SigningKey::generate() {
  Seed seed{};
  fill_random(seed);
  return SigningKey(seed);
}

Result<SigningKey> SigningKey::load(const std::string& path) {
  auto text = os::read_private_file(path, 1024);
  if (!text) {
    if (text.error().details_json.find("ENOENT") == std::string::npos) return std::move(text).error();
    return Error::make(Code::not_found, "there is no signing key", path);
  }
  while (!text->empty() && text->back() == '\n') text->pop_back();
  const auto bytes = from_hex(*text);
  Seed seed{};
  if (!bytes || bytes->size() != seed.size()) {
    return Error::make(Code::conflict, path + " is not a signing key");
  }
  std::memcpy(seed.data(), bytes->data(), seed.size());
  return SigningKey(seed);
}

Status SigningKey::save(const std::string& path) const { return os::write_private_file(path, to_hex(seed_) + "\n"); }

Signature SigningKey::sign(ByteView message) const {
  PublicKey unused;
  SecretKey secret = secret_key(seed_, unused);
  Signature signature{};
  ::crypto_sign_detached(signature.data(), nullptr, message.data(), message.size(), secret.data());
  ::sodium_memzero(secret.data(), secret.size());
  return signature;
}

bool is_signed_by(const PublicKey& key, ByteView message, const Signature& signature) {
  return ::crypto_sign_verify_detached(signature.data(), message.data(), message.size(), key.data()) == 0;
}

}  // namespace sallyport::ledger

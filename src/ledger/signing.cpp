#include "ledger/signing.h"

#include <openssl/evp.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "os/files.h"

namespace sallyport::ledger {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { ::EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;

// OpenSSL fails here only without memory or without Ed25519: nothing useful can be answered then.
void require(bool worked) {
  if (!worked) std::abort();
}

Key private_key(ByteView seed) {
  Key key(::EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
  require(key != nullptr);
  return key;
}

}  // namespace

SigningKey::SigningKey(const Seed& seed) : seed_(seed) {
  std::size_t size = public_.size();
  require(::EVP_PKEY_get_raw_public_key(private_key(seed_).get(), public_.data(), &size) == 1);
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
  Signature signature{};
  std::size_t size = signature.size();
  const Key key = private_key(seed_);
  const Context context(::EVP_MD_CTX_new());
  require(context != nullptr && ::EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
          ::EVP_DigestSign(context.get(), signature.data(), &size, message.data(), message.size()) == 1);
  return signature;
}

bool is_signed_by(const PublicKey& key, ByteView message, const Signature& signature) {
  const Key imported(::EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()));
  const Context context(::EVP_MD_CTX_new());
  return imported != nullptr && context != nullptr &&
         ::EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, imported.get()) == 1 &&
         ::EVP_DigestVerify(context.get(), signature.data(), signature.size(), message.data(), message.size()) == 1;
}

}  // namespace sallyport::ledger

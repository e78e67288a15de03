// OpenSSL asks the processor what it can do before main, and in a virtual machine the host answers each question: a
// twentieth of a millisecond for every `sallyport run`, which hashes nothing. In the static programs it asks here.
#pragma once

// Of apps/openssl_later.cpp, which those programs have; in all others OpenSSL has asked already.
extern "C" [[gnu::weak]] void sallyport_prepare_openssl();

namespace sallyport {

// Before the first hash, which would only be slower without.
inline void prepare_openssl() {
  [[maybe_unused]] static const bool is_done = [] {
    if (sallyport_prepare_openssl != nullptr) sallyport_prepare_openssl();
    return true;
  }();
}

}  // namespace sallyport

// What a static program calls instead of OpenSSL's look at the processor: see base/openssl_later.h. The names are the
// linker's (--wrap): the first one is what is called before main, the second one is OpenSSL's own function.
#include "base/openssl_later.h"

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" void __wrap_OPENSSL_cpuid_setup();
extern "C" void __real_OPENSSL_cpuid_setup();

void __wrap_OPENSSL_cpuid_setup() {}

void sallyport_prepare_openssl() { __real_OPENSSL_cpuid_setup(); }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

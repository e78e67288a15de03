// Whether a sanitizer's runtime is part of this program: then it calls the kernel for itself, and takes more time and
// memory.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SALLYPORT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SALLYPORT_SANITIZED 1
#endif
#endif
#ifndef SALLYPORT_SANITIZED
#define SALLYPORT_SANITIZED 0
#endif

namespace sallyport {

inline constexpr bool kIsSanitized = SALLYPORT_SANITIZED != 0;

}  // namespace sallyport

// Where the plain part of a JSON string ends.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sallyport::wire {

// The first byte that is a quote, a backslash, a control character or no ASCII; `end` if there is none.
inline const char* find_special(const char* from, const char* end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(' ');
  for (; end - from >= 16; from += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    // As signed numbers the bytes beyond ASCII are below the space too.
    const __m128i special = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                                         _mm_cmplt_epi8(bytes, space));
    if (const auto mask = static_cast<unsigned>(_mm_movemask_epi8(special)); mask != 0) {
      return from + __builtin_ctz(mask);
    }
  }
#endif
  while (from != end && *from != '"' && *from != '\\' && static_cast<signed char>(*from) >= ' ') ++from;
  return from;
}

}  // namespace sallyport::wire

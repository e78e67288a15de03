// Copying the text of a JSON string, from one special byte to the next.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sallyport::wire {

// How far behind what it copied copy_text may write.
inline constexpr std::size_t kPlainSlack = 16;

// A quote, a backslash, a control character, or no ASCII.
inline bool is_special(char c) { return c == '"' || c == '\\' || static_cast<signed char>(c) < ' '; }

#if defined(__SSE2__)
inline unsigned special_bits(__m128i bytes) {
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(' ');
  // As signed numbers the bytes beyond ASCII are below the space too.
  const __m128i special = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                                       _mm_cmplt_epi8(bytes, space));
  return static_cast<unsigned>(_mm_movemask_epi8(special));
}

inline void copy_16(const char* from, char* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
#endif

struct Copied {
  const char* from;  // where it stopped; the end if nothing stopped it
  char* to;          // behind the copy
};

// Copies what is not special. At each special byte `special(at, to)` is called, which writes what it likes to `to` and
// says where to go on, or null to stop there. The two places must not overlap.
template <typename Special>
Copied copy_text(const char* from, const char* const end, char* to, Special special) {
#if defined(__SSE2__)
  // Texts have a special byte every few words: a block is searched once, and not again behind each of them.
  constexpr std::ptrdiff_t kBlock = 64;
  while (end - from >= kBlock + 16) {
    const char* const block = from;
    const auto bits_at = [block](int i) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + i));
      return static_cast<std::uint64_t>(special_bits(bytes)) << i;
    };
    const auto copy_to = [&](const char* stop) {
      const std::ptrdiff_t count = stop - from;
      for (std::ptrdiff_t i = 0; i < count; i += 16) copy_16(from + i, to + i);
      to += count;
    };
    std::uint64_t bits = bits_at(0) | bits_at(16) | bits_at(32) | bits_at(48);
    while (bits != 0) {
      const char* const at = block + std::countr_zero(bits);
      copy_to(at);
      from = special(at, to);
      if (from == nullptr) return {at, to};
      bits = from - block < kBlock ? bits & ~std::uint64_t{0} << (from - block) : 0;
    }
    if (from - block < kBlock) {
      copy_to(block + kBlock);
      from = block + kBlock;
    }
  }
#endif
  while (from != end) {
#if defined(__SSE2__)
    if (end - from >= 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
      const int count = std::countr_zero(special_bits(bytes) | 0x10000U);
      from += count;
      to += count;
      if (count == 16) continue;
    }
#endif
    if (is_special(*from)) {
      const char* const at = from;
      from = special(at, to);
      if (from == nullptr) return {at, to};
    } else {
      *to++ = *from++;
    }
  }
  return {end, to};
}

}  // namespace sallyport::wire

// Copying the text of a JSON string, from one special byte to the next.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sallyport::wire {

// How far behind what it copied copy_text may write.
inline constexpr std::size_t kPlainSlack = 16;

// A quote, a backslash, a control character, or no ASCII.
inline bool is_special(char c) { return c == '"' || c == '\\' || static_cast<signed char>(c) < ' '; }

#if defined(__SSE2__)
inline __m128i load_16(const char* text) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text)); }
inline void store_16(__m128i bytes, char* to) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes); }
inline void copy_16(const char* from, char* to) { store_16(load_16(from), to); }

template <typename Word>
std::uint64_t load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// The 1 to 15 bytes that are there, and zeros behind them. Words are read that overlap rather than each byte.
inline __m128i load_few(const char* from, std::size_t count) {
  if (count > 8) {
    const std::uint64_t last = load<std::uint64_t>(from + count - 8) >> (8 * (16 - count));
    return _mm_set_epi64x(static_cast<long long>(last), static_cast<long long>(load<std::uint64_t>(from)));
  }
  std::uint64_t bytes = 0;
  if (count >= 4) {
    bytes = load<std::uint32_t>(from) | load<std::uint32_t>(from + count - 4) << (8 * (count - 4));
  } else {
    for (const std::size_t i : {std::size_t{0}, count / 2, count - 1}) bytes |= load<std::uint8_t>(from + i) << (8 * i);
  }
  return _mm_cvtsi64_si128(static_cast<long long>(bytes));
}

// A bit for each of 16 bytes.
inline std::uint32_t special_16(__m128i bytes) {
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(' ');
  // As signed numbers the bytes beyond ASCII are below the space too.
  const __m128i special = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                                       _mm_cmplt_epi8(bytes, space));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(special));
}
// A bit for each of 16 bytes that no name without escapes has: a special one, a space, or DEL.
inline std::uint32_t unnamed_16(__m128i bytes) {
  const __m128i others =
      _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f)));
  return special_16(bytes) | static_cast<std::uint32_t>(_mm_movemask_epi8(others));
}
// A bit for each of 64.
inline std::uint64_t special_64(const char* text) {
  const auto at = [text](int i) { return std::uint64_t{special_16(load_16(text + i))} << i; };
  return at(0) | at(16) | at(32) | at(48);
}
#endif

struct Copied {
  const char* from;  // where it stopped; if nothing stopped it the end, or where the last special byte took it
  char* to;          // behind the copy
};

// Copies what is not special. At each special byte `special(at, to)` is called, which writes what it likes to `to` and
// says where both go on, or null to stop there. The two places must not overlap. Without kCopies nothing is copied.
template <bool kCopies = true, typename Special>
Copied copy_text(const char* from, const char* const end, char* to, Special special) {
#if defined(__SSE2__)
  // Texts have a special byte every few words: a block is searched once, and not again behind each of them.
  constexpr std::ptrdiff_t kBlock = 64;
  while (end - from >= kBlock + 16) {
    const char* const block = from;
    const auto copy_to = [&](const char* stop) __attribute__((always_inline)) {
      if (!kCopies) return;
      const std::ptrdiff_t count = stop - from;
      copy_16(from, to);
      for (std::ptrdiff_t i = 16; i < count; i += 16) copy_16(from + i, to + i);
      to += count;
    };
    std::uint64_t bits = special_64(block);
    while (bits != 0) {
      const char* const at = block + std::countr_zero(bits);
      copy_to(at);
      const Copied next = special(at, to);
      if (next.from == nullptr) return {at, to};
      from = next.from;
      to = next.to;
      if (from - at == 1) {
        bits &= bits - 1;
      } else {
        bits = from - block < kBlock ? bits & ~std::uint64_t{0} << (from - block) : 0;
      }
    }
    if (from - block < kBlock) {
      copy_to(block + kBlock);
      from = block + kBlock;
    }
  }
#endif
  while (from < end) {
#if defined(__SSE2__)
    // The zeros behind the last bytes are special too.
    const std::ptrdiff_t left = end - from;
    const __m128i bytes = left >= 16 ? load_16(from) : load_few(from, static_cast<std::size_t>(left));
    const int count = std::countr_zero(special_16(bytes) | 0x10000U);
    if (kCopies) {
      store_16(bytes, to);
      to += count;
    }
    from += count;
    if (count == 16 || from == end) continue;
#else
    if (!is_special(*from)) {
      if (kCopies) *to++ = *from;
      ++from;
      continue;
    }
#endif
    const Copied next = special(from, to);
    if (next.from == nullptr) return {from, to};
    from = next.from;
    to = next.to;
  }
  return {from, to};
}

}  // namespace sallyport::wire

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

// Whether one of eight bytes is special.
inline bool has_special(std::uint64_t bytes) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kTops = kOnes << 7;
  const auto below = [](std::uint64_t each, std::uint64_t least) { return (each - kOnes * least) & ~each; };
  return ((bytes | below(bytes, ' ') | below(bytes ^ kOnes * '"', 1) | below(bytes ^ kOnes * '\\', 1)) & kTops) != 0;
}

// Fewer than 16 bytes, copied if none of them is special. A word is read that overlaps the one before rather than each
// byte of the rest.
template <typename Word, bool kCopies>
bool copy_two(const char* from, std::size_t count, char* to) {
  Word first, last;
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&last, from + count - sizeof last, sizeof last);
  const bool is_plain =
      sizeof(Word) == 8 ? !has_special(first) && !has_special(last) : !has_special(std::uint64_t{first} << 32 | last);
  if (!is_plain) return false;
  if (kCopies) {
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + count - sizeof last, &last, sizeof last);
  }
  return true;
}
template <bool kCopies>
bool copy_short(const char* from, std::size_t count, char* to) {
  if (count >= 8) return copy_two<std::uint64_t, kCopies>(from, count, to);
  return count >= 4 && copy_two<std::uint32_t, kCopies>(from, count, to);
}

#if defined(__SSE2__)
inline __m128i load_16(const char* text) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text)); }
inline void copy_16(const char* from, char* to) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), load_16(from)); }

// A bit for each of 16 bytes.
inline std::uint32_t special_16(__m128i bytes) {
  const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(' ');
  // As signed numbers the bytes beyond ASCII are below the space too.
  const __m128i special = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                                       _mm_cmplt_epi8(bytes, space));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(special));
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
  bool is_tried = false;  // all that is left at once
  while (from < end) {
#if defined(__SSE2__)
    if (kCopies && end - from >= 16) {
      copy_16(from, to);
      const int count = std::countr_zero(special_16(load_16(from)) | 0x10000U);
      from += count;
      to += count;
      if (count == 16) continue;
    }
#endif
    const auto left = static_cast<std::size_t>(end - from);
    if (left < 16 && !std::exchange(is_tried, true) && copy_short<kCopies>(from, left, to)) {
      return {end, kCopies ? to + left : to};
    }
    if (is_special(*from)) {
      const Copied next = special(from, to);
      if (next.from == nullptr) return {from, to};
      from = next.from;
      to = next.to;
      is_tried = false;
    } else {
      if (kCopies) *to++ = *from;
      ++from;
    }
  }
  return {from, to};
}

}  // namespace sallyport::wire

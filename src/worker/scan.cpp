#include "worker/scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sallyport::worker {
namespace {

// Bytes of source code and prose, most frequent first; what is not listed is rare.
constexpr std::string_view kFrequent =
    " etaonrisldcupm\nfhg_.yb(),v;-=w\t*x\"k/>'0:1S{}TECA2IRPNDqOL#<j3[]zFM45U8B\\67G9V+&H!W%Y@X|KJ$QZ?`~^";

constexpr auto kRarity = [] {
  std::array<std::uint8_t, 256> rarity{};
  rarity.fill(255);
  for (std::size_t i = 0; i < kFrequent.size(); ++i)
    rarity[static_cast<unsigned char>(kFrequent[i])] = static_cast<std::uint8_t>(i);
  return rarity;
}();

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }
constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c & ~0x20) : c; }

}  // namespace

LiteralScanner::LiteralScanner(std::string literal, bool ignore_case)
    : literal_(std::move(literal)), ignore_case_(ignore_case) {
  if (ignore_case) std::transform(literal_.begin(), literal_.end(), literal_.begin(), lower);
  const auto rarity = [&](std::size_t i) {
    const auto byte = static_cast<unsigned char>(literal_[i]);
    return ignore_case_ ? std::min(kRarity[byte], kRarity[static_cast<unsigned char>(upper(literal_[i]))])
                        : kRarity[byte];
  };
  for (std::size_t i = 1; i < literal_.size(); ++i) {
    if (rarity(i) > rarity(first_)) first_ = i;
  }
  second_ = first_ == 0 && literal_.size() > 1 ? 1 : 0;
  for (std::size_t i = 0; i < literal_.size(); ++i) {
    if (i != first_ && (second_ == first_ || rarity(i) > rarity(second_))) second_ = i;
  }
  use(Engine::best);
}

void LiteralScanner::use(Engine engine) {
  find_ = find_plain;
#if defined(__x86_64__)
  if (engine == Engine::sse2) find_ = find_sse2;
  if (engine == Engine::best) find_ = __builtin_cpu_supports("avx2") != 0 ? find_avx2 : find_sse2;
#endif
  if (literal_.empty()) find_ = [](const LiteralScanner&, const char* from, const char*) { return from; };
}

bool LiteralScanner::is_at(const char* place) const {
  if (!ignore_case_) return std::memcmp(place, literal_.data(), literal_.size()) == 0;
  for (std::size_t i = 0; i < literal_.size(); ++i) {
    if (lower(place[i]) != literal_[i]) return false;
  }
  return true;
}

const char* LiteralScanner::find_plain(const LiteralScanner& scanner, const char* from, const char* end) {
  const std::size_t length = scanner.literal_.size();
  for (; static_cast<std::size_t>(end - from) >= length; ++from) {
    if (scanner.is_at(from)) return from;
  }
  return nullptr;
}

#if defined(__x86_64__)

// Both engines are the same code over vectors of another width. Loads start at most at the last
// possible place of the literal plus a position inside it, so they end less than a vector behind `end`.
const char* LiteralScanner::find_sse2(const LiteralScanner& scanner, const char* from, const char* end) {
  const std::size_t length = scanner.literal_.size();
  if (static_cast<std::size_t>(end - from) < length) return nullptr;
  const char* const last = end - length;
  const char a = scanner.literal_[scanner.first_];
  const char b = scanner.literal_[scanner.second_];
  const __m128i a_low = _mm_set1_epi8(a);
  const __m128i b_low = _mm_set1_epi8(b);
  const __m128i a_up = _mm_set1_epi8(scanner.ignore_case_ ? upper(a) : a);
  const __m128i b_up = _mm_set1_epi8(scanner.ignore_case_ ? upper(b) : b);
  for (const char* at = from; at <= last; at += 16) {
    const __m128i one = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + scanner.first_));
    const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + scanner.second_));
    const __m128i one_hits = _mm_or_si128(_mm_cmpeq_epi8(one, a_low), _mm_cmpeq_epi8(one, a_up));
    const __m128i two_hits = _mm_or_si128(_mm_cmpeq_epi8(two, b_low), _mm_cmpeq_epi8(two, b_up));
    auto mask = static_cast<unsigned>(_mm_movemask_epi8(_mm_and_si128(one_hits, two_hits)));
    for (; mask != 0; mask &= mask - 1) {
      const char* const place = at + std::countr_zero(mask);
      if (place > last) return nullptr;
      if (scanner.is_at(place)) return place;
    }
  }
  return nullptr;
}

__attribute__((target("avx2"))) const char* LiteralScanner::find_avx2(const LiteralScanner& scanner, const char* from,
                                                                      const char* end) {
  const std::size_t length = scanner.literal_.size();
  if (static_cast<std::size_t>(end - from) < length) return nullptr;
  const char* const last = end - length;
  const char a = scanner.literal_[scanner.first_];
  const char b = scanner.literal_[scanner.second_];
  const __m256i a_low = _mm256_set1_epi8(a);
  const __m256i b_low = _mm256_set1_epi8(b);
  const __m256i a_up = _mm256_set1_epi8(scanner.ignore_case_ ? upper(a) : a);
  const __m256i b_up = _mm256_set1_epi8(scanner.ignore_case_ ? upper(b) : b);
  for (const char* at = from; at <= last; at += 32) {
    const __m256i one = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + scanner.first_));
    const __m256i two = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + scanner.second_));
    const __m256i one_hits = _mm256_or_si256(_mm256_cmpeq_epi8(one, a_low), _mm256_cmpeq_epi8(one, a_up));
    const __m256i two_hits = _mm256_or_si256(_mm256_cmpeq_epi8(two, b_low), _mm256_cmpeq_epi8(two, b_up));
    auto mask = static_cast<unsigned>(_mm256_movemask_epi8(_mm256_and_si256(one_hits, two_hits)));
    for (; mask != 0; mask &= mask - 1) {
      const char* const place = at + std::countr_zero(mask);
      if (place > last) return nullptr;
      if (scanner.is_at(place)) return place;
    }
  }
  return nullptr;
}

namespace {

__attribute__((target("avx2,popcnt"))) std::size_t count_newlines_avx2(const char* from, const char* end) {
  const __m256i newline = _mm256_set1_epi8('\n');
  std::size_t count = 0;
  for (; end - from >= 32; from += 32) {
    const __m256i block = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    count += static_cast<std::size_t>(
        __builtin_popcount(static_cast<unsigned>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(block, newline)))));
  }
  return count + static_cast<std::size_t>(std::count(from, end, '\n'));
}

}  // namespace

std::size_t count_newlines_fast(const char* from, const char* end) {
  if (__builtin_cpu_supports("avx2") != 0) return count_newlines_avx2(from, end);
  return static_cast<std::size_t>(std::count(from, end, '\n'));
}

#else

std::size_t count_newlines_fast(const char* from, const char* end) {
  return static_cast<std::size_t>(std::count(from, end, '\n'));
}

#endif

}  // namespace sallyport::worker

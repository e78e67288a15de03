#include "worker/scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "worker/text.h"

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

__attribute__((target("avx2,popcnt"))) std::size_t bits(__m256i mask) {
  return static_cast<std::size_t>(__builtin_popcount(static_cast<unsigned>(_mm256_movemask_epi8(mask))));
}

// Both answer for whole blocks and leave `text` with the rest.
__attribute__((target("avx2,popcnt"))) std::size_t count_newlines_avx2(std::string_view& text) {
  const __m256i newline = _mm256_set1_epi8('\n');
  std::size_t count = 0;
  for (; text.size() >= 32; text.remove_prefix(32)) {
    const __m256i block = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text.data()));
    count += bits(_mm256_cmpeq_epi8(block, newline));
  }
  return count;
}

__attribute__((target("avx2,popcnt"))) std::size_t escaped_size_avx2(std::string_view& text) {
  const __m256i quote = _mm256_set1_epi8('"');
  const __m256i backslash = _mm256_set1_epi8('\\');
  const __m256i last_control = _mm256_set1_epi8(0x1f);
  // \b \t \n \f \r by their low four bits; \v is the one of 8..13 without a short form.
  const __m256i has_short = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, 0, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                             0, -1, -1, -1, 0, -1, -1, 0, 0);
  const __m256i first_long = _mm256_set1_epi8(0x0f);
  std::size_t size = 0;
  for (; text.size() >= 32; text.remove_prefix(32)) {
    const __m256i block = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text.data()));
    const __m256i marked = _mm256_or_si256(_mm256_cmpeq_epi8(block, quote), _mm256_cmpeq_epi8(block, backslash));
    // Unsigned byte <= 0x1f, and <= 0x0f where the table applies.
    const __m256i control = _mm256_cmpeq_epi8(_mm256_max_epu8(block, last_control), last_control);
    const __m256i low = _mm256_cmpeq_epi8(_mm256_max_epu8(block, first_long), first_long);
    const __m256i brief = _mm256_and_si256(low, _mm256_shuffle_epi8(has_short, _mm256_and_si256(block, first_long)));
    size += 32 + bits(marked) + bits(brief) + 5 * bits(_mm256_andnot_si256(brief, control));
  }
  return size;
}

bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }

}  // namespace

#else

namespace {

bool has_avx2() { return false; }
std::size_t count_newlines_avx2(std::string_view&) { return 0; }
std::size_t escaped_size_avx2(std::string_view&) { return 0; }

}  // namespace

#endif

std::size_t count_newlines(std::string_view text) {
  const std::size_t count = has_avx2() ? count_newlines_avx2(text) : 0;
  return count + static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::size_t escaped_size(std::string_view text) {
  std::size_t size = has_avx2() ? escaped_size_avx2(text) : 0;
  for (const char c : text) size += escaped_cost(c);
  return size;
}

}  // namespace sallyport::worker

#include "adapters/vector_math.h"

#include <bit>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sallyport::adapters {
namespace {

static_assert(std::endian::native == std::endian::little, "vectors are stored as they are in memory");

float load(const std::uint8_t* at) {
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Products plain_products(const float* a, const std::uint8_t* b, std::size_t count) {
  Products sums;
  for (std::size_t i = 0; i < count; ++i) {
    const float other = load(b + i * sizeof(float));
    sums.dot += a[i] * other;
    sums.self += other * other;
  }
  return sums;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) Products wide_products(const float* a, const std::uint8_t* b, std::size_t count) {
  __m256 dot[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, self[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (std::size_t half = 0; half < 2; ++half) {
      const __m256 mine = _mm256_loadu_ps(a + i + half * 8);
      const __m256 other = _mm256_loadu_ps(reinterpret_cast<const float*>(b + (i + half * 8) * sizeof(float)));
      dot[half] = _mm256_fmadd_ps(mine, other, dot[half]);
      self[half] = _mm256_fmadd_ps(other, other, self[half]);
    }
  }
  float lanes[8];
  Products sums = plain_products(a + i, b + i * sizeof(float), count - i);
  _mm256_storeu_ps(lanes, _mm256_add_ps(dot[0], dot[1]));
  for (const float lane : lanes) sums.dot += lane;
  _mm256_storeu_ps(lanes, _mm256_add_ps(self[0], self[1]));
  for (const float lane : lanes) sums.self += lane;
  return sums;
}
#endif

}  // namespace

Products products(const float* a, const std::uint8_t* b, std::size_t count) {
#if defined(__x86_64__)
  static const bool kIsWide = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (kIsWide) return wide_products(a, b, count);
#endif
  return plain_products(a, b, count);
}

bool are_comparable(const std::uint8_t* floats, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, floats + i * sizeof bits, sizeof bits);
    // As bits, magnitudes are in the order of their numbers, and those of no numbers are above all.
    if ((bits & 0x7fffffffU) > std::bit_cast<std::uint32_t>(kMostMagnitude)) return false;
  }
  return true;
}

}  // namespace sallyport::adapters

// How alike two vectors are, and what is no vector.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sallyport::adapters {

struct Products {
  float dot = 0;   // of a and b
  float self = 0;  // of b and itself
};
// `b` are little-endian float32 as they are stored, at any alignment. AVX2 where the machine has it.
Products products(const float* a, const std::uint8_t* b, std::size_t count);
// Numbers whose products do not overflow: none infinite, none not a number, none beyond kMostMagnitude.
inline constexpr float kMostMagnitude = 1e15F;
bool are_comparable(const std::uint8_t* floats, std::size_t count);

}  // namespace sallyport::adapters

// Randomness from the kernel (getrandom).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sallyport {

// Fills the whole span, waiting for the kernel's generator if it is not seeded yet. Aborts the
// process if the kernel has no getrandom: a predictable token is worse than none.
void fill_random(std::span<std::uint8_t> out);
std::string random_hex(std::size_t bytes);

}  // namespace sallyport

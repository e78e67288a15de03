#include "sandbox/git_hash.h"

#include <array>
#include <bit>
#include <cstdint>

namespace sallyport::sandbox {
namespace {

constexpr std::size_t kBlock = 64;

// The text, a one bit, zeros, and the number of bits, cut into blocks of sixteen words; then the state as bytes.
template <std::size_t N, typename Mix>
std::string digest(std::string_view text, std::array<std::uint32_t, N> state, const Mix& mix) {
  const std::uint64_t bits = std::uint64_t{text.size()} * 8;
  const std::size_t tail_size = text.size() % kBlock;
  std::string tail(text.substr(text.size() - tail_size));
  tail.push_back('\x80');
  tail.append((2 * kBlock - 8 - tail.size()) % kBlock, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) tail.push_back(static_cast<char>(bits >> shift));
  const auto take = [&](std::string_view blocks) {
    for (; blocks.size() >= kBlock; blocks.remove_prefix(kBlock)) {
      std::array<std::uint32_t, 16> words{};
      for (std::size_t i = 0; i < kBlock; ++i) {
        words[i / 4] = words[i / 4] << 8 | static_cast<std::uint8_t>(blocks[i]);
      }
      mix(state, words);
    }
  };
  take(text.substr(0, text.size() - tail_size));
  take(tail);
  std::string bytes;
  for (const std::uint32_t word : state) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(word >> shift));
  }
  return bytes;
}

void mix_sha1(std::array<std::uint32_t, 5>& state, const std::array<std::uint32_t, 16>& words) {
  std::array<std::uint32_t, 80> w{};
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = i < 16 ? words[i] : std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  }
  auto [a, b, c, d, e] = state;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                            : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                            : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                     : (b ^ c ^ d) + 0xca62c1d6;
    const std::uint32_t next = std::rotl(a, 5) + f + e + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const std::array<std::uint32_t, 5> added = {a, b, c, d, e};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

// Of the cube roots of the first 64 primes, the first 32 bits behind the point.
constexpr std::array<std::uint32_t, 64> kSha256Words = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

void mix_sha256(std::array<std::uint32_t, 8>& state, const std::array<std::uint32_t, 16>& words) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (i < 16) {
      w[i] = words[i];
      continue;
    }
    const std::uint32_t early = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t late = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + early + w[i - 7] + late;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint32_t one =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kSha256Words[i] + w[i];
    const std::uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + one;
    d = c;
    c = b;
    b = a;
    a = one + two;
  }
  const std::array<std::uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

std::string sha1(std::string_view text) {
  return digest<5>(text, {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, mix_sha1);
}

std::string sha256(std::string_view text) {
  return digest<8>(text,
                   {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
                   mix_sha256);
}

std::string blob_name(std::string_view content, std::size_t name_bytes) {
  std::string object = "blob " + std::to_string(content.size());
  object.push_back('\0');
  object.append(content);
  return name_bytes == kSha1Bytes ? sha1(object) : sha256(object);
}

}  // namespace sallyport::sandbox

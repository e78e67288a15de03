#include "platform/embedded.h"

#include <cmath>

namespace sallyport::platform {
namespace {

std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t value = 14695981039346656037ULL ^ seed;
  for (const char c : text) {
    value ^= static_cast<unsigned char>(c);
    value *= 1099511628211ULL;
  }
  // The low bits of the sum are weak.
  value ^= value >> 32;
  return value * 0x9e3779b97f4a7c15ULL;
}

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z');
}

void add(std::vector<float>& vector, std::string_view feature, float weight) {
  const std::uint64_t value = hash(feature, 0);
  vector[(value >> 8) % vector.size()] += (value & 1) != 0 ? weight : -weight;
}

}  // namespace

std::vector<float> hash_text(std::string_view text, std::size_t dimensions) {
  std::vector<float> vector(dimensions, 0.0F);
  std::string word;
  const auto take_word = [&] {
    if (word.empty()) return;
    add(vector, word, 1.0F);
    // Inflections share their beginning.
    if (word.size() > 4) add(vector, word.substr(0, 4) + "*", 0.5F);
    word.clear();
  };
  for (const char c : text) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (is_word(lower)) {
      word.push_back(lower);
    } else {
      take_word();
    }
  }
  take_word();
  float sum = 0;
  for (const float value : vector) sum += value * value;
  if (sum > 0) {
    for (float& value : vector) value /= std::sqrt(sum);
  }
  return vector;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t word = text.find_first_not_of(" \t\r\n", begin);
    std::size_t end = word == std::string_view::npos ? text.size() : text.find_first_of(" \t\r\n", word);
    if (end == std::string_view::npos) end = text.size();
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

Echo echo(std::string_view text, std::int64_t most, const std::function<bool(std::string_view)>& on_word) {
  Echo said;
  for (const std::string_view word : split_words(text)) {
    if (most > 0 && said.words == most) {
      said.finish_reason = "length";
      break;
    }
    ++said.words;
    said.text.append(word);
    if (!on_word(word)) break;
  }
  return said;
}

}  // namespace sallyport::platform

// Finding a literal in bytes, with vectors: what a search spends its time on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sallyport::worker {

// Readable bytes that must lie behind every text given to a scanner; they are never part of a match.
inline constexpr std::size_t kScanPadding = 64;

// AVX2 where the processor has it, SSE2 otherwise (every x86-64 has that), plain code elsewhere. It
// looks for the two rarest bytes of the literal at their distance, 32 places at once, and compares
// the whole literal only where both are.
class LiteralScanner {
 public:
  // `ignore_case` folds ASCII letters only.
  LiteralScanner(std::string literal, bool ignore_case);

  // The first occurrence at or behind `from`, or nullptr. [from, end) must be followed by kScanPadding
  // readable bytes. An empty literal is found at once.
  const char* find(const char* from, const char* end) const { return find_(*this, from, end); }

  const std::string& literal() const { return literal_; }

  enum class Engine : std::uint8_t { best, sse2, plain };  // for tests
  void use(Engine engine);

 private:
  using Find = const char* (*)(const LiteralScanner&, const char*, const char*);
  static const char* find_plain(const LiteralScanner& scanner, const char* from, const char* end);
  static const char* find_sse2(const LiteralScanner& scanner, const char* from, const char* end);
  static const char* find_avx2(const LiteralScanner& scanner, const char* from, const char* end);
  bool is_at(const char* place) const;

  std::string literal_;  // lower case where case is ignored
  bool ignore_case_;
  std::size_t first_ = 0;  // places of the two rarest bytes in the literal
  std::size_t second_ = 0;
  Find find_;
};

// Newlines in a text, 32 bytes at a time.
std::size_t count_newlines(std::string_view text);
// What a text takes inside a JSON string; UTF-8 passes through.
std::size_t escaped_size(std::string_view text);

}  // namespace sallyport::worker

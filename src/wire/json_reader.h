// Reads JSON text in one pass into a Document. Inside of wire only: others have Decoder and decode_message.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/utf8.h"
#include "wire/json.h"
#include "wire/plain.h"

namespace sallyport::wire {

static_assert(kMaxDepth == 32);
inline constexpr const char* kTooDeep = "nested deeper than 32";
// More than a connection may open is refused later; no need to remember them all.
inline constexpr std::size_t kMaxStreamsFound = kMaxOpenStreams + 1;

// For each letter behind a backslash what it stands for, or 0.
inline constexpr std::array<char, 256> kMeanings = [] {
  std::array<char, 256> table{};
  table['"'] = '"';
  table['\\'] = '\\';
  table['/'] = '/';
  table['b'] = '\b';
  table['f'] = '\f';
  table['n'] = '\n';
  table['r'] = '\r';
  table['t'] = '\t';
  return table;
}();

// Whether some are equal; sorts them at worst.
bool are_some_equal(std::vector<std::string_view>& keys);

// Reads a text in one pass into the words of a document and its strings, unescaped, one behind the other.
class JsonReader {
 public:
  // The document has room for all of the text, and copy_text's slack. Every {"$stream":n} is noted in `streams`.
  JsonReader(std::string_view text, Document& document, std::vector<std::uint32_t>* streams = nullptr)
      : words_(document.memory_->words),
        texts_(reinterpret_cast<char*>(document.memory_->texts.data())),
        to_(texts_),
        at_(text.data()),
        end_(at_ + text.size()),
        streams_(streams) {}

  // What is wrong with it, or null.
  const char* read() { return value(0) ? finish() : problem_; }
  const char* at() const { return at_; }  // how far it came

 protected:
  using Kind = Value::Kind;

  const char* finish() {
    skip_space();
    return at_ == end_ ? nullptr : "more than one value";
  }
  static constexpr std::size_t kFewKeys = 16;

  bool fail(const char* problem) {
    problem_ = problem;
    return false;
  }
  static std::uint64_t word(Kind kind, std::uint64_t content) {
    return content << Value::kKindBits | static_cast<std::uint64_t>(kind);
  }
  void push(Kind kind, std::uint64_t content = 0) { words_.push_back(word(kind, content)); }

  void push_text(Kind kind, const char* begin) {
    const auto offset = static_cast<std::uint64_t>(begin - texts_), size = static_cast<std::uint64_t>(to_ - begin);
    push(kind, offset << Value::kSizeBits | size);
  }

  char next() const { return at_ < end_ ? *at_ : '\0'; }
  bool skip(char expected) {
    if (next() != expected) return false;
    ++at_;
    return true;
  }
  template <std::size_t kSize>
  bool skip(const char (&expected)[kSize]) {
    constexpr std::size_t kLength = kSize - 1;
    if (static_cast<std::size_t>(end_ - at_) < kLength || std::memcmp(at_, expected, kLength) != 0) return false;
    at_ += kLength;
    return true;
  }
  void skip_space() {
    // Nearly always there is none.
    while (at_ < end_ && static_cast<unsigned char>(*at_) <= ' ' &&
           (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t'))
      ++at_;
  }

  bool value(std::size_t depth) {
    skip_space();
    switch (next()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return is_checking_ ? string<false>() : string<true>();
      case 't':
        return literal(Kind::yes, "true");
      case 'f':
        return literal(Kind::no, "false");
      case 'n':
        return literal(Kind::null, "null");
      default:
        return number();
    }
  }

  template <std::size_t kSize>
  bool literal(Kind kind, const char (&name)[kSize]) {
    if (!skip(name)) return fail("not a value");
    push(kind);
    return true;
  }

  bool array(std::size_t depth) {
    if (depth == kMaxDepth) return fail(kTooDeep);
    const std::size_t index = open();
    if (!skip(']')) {
      do {
        if (!value(depth + 1)) return false;
        skip_space();
      } while (skip(','));
      if (!skip(']')) return fail("an array is not closed");
    }
    close(index, Kind::array);
    return true;
  }

  bool object(std::size_t depth) {
    if (depth == kMaxDepth) return fail(kTooDeep);
    const std::size_t index = open();
    std::array<std::size_t, kFewKeys> few;  // where the first keys are
    std::size_t count = 0;
    if (!skip('}')) {
      do {
        skip_space();
        if (next() != '"') return fail("a member without a name");
        if (count < few.size()) few[count] = words_.size();
        ++count;
        if (!string<true>() || !skip_colon() || !value(depth + 1)) return false;
        skip_space();
      } while (skip(','));
      if (!skip('}')) return fail("an object is not closed");
    }
    close(index, Kind::object);
    if (has_duplicates(index, few, count)) return fail("duplicate key");
    if (count == 1 && streams_ != nullptr && text_of(few[0]) == "$stream") note_stream(index + 2);
    return true;
  }

  bool skip_colon() {
    skip_space();
    return skip(':') || fail("a member without a colon");
  }

  // The name of a member, valid until the next text is read.
  bool name(std::string_view& name) {
    if (next() != '"') return fail("a member without a name");
#if defined(__SSE2__)
    if (end_ - at_ > 16) {
      const auto length = static_cast<std::size_t>(std::countr_zero(special_16(load_16(at_ + 1)) | 0x10000U));
      if (length < 16 && at_[1 + length] == '"') {
        name = {at_ + 1, length};
        at_ += length + 2;
        return true;
      }
    }
#endif
    char* const begin = to_;
    if (!text<true>()) return false;
    name = {begin, to_};
    to_ = begin;
    return true;
  }

  // A member of the root, read to see that it is valid, and then kept as its text.
  bool kept() {
    skip_space();
    const char* const first = at_;
    char* const begin = to_;
    const std::size_t index = words_.size(), streams = streams_->size();
    is_checking_ = true;
    const bool is_valid = value(1);
    is_checking_ = false;
    if (!is_valid) return false;
    words_.resize(index);
    to_ = begin;
    if (streams_->size() != streams) {
      streams_->resize(streams);
      at_ = first;
      return value(1);
    }
    const auto size = static_cast<std::size_t>(at_ - first);
    std::memcpy(begin, first, size);
    to_ = begin + size;
    push_text(Kind::raw, begin);
    return true;
  }

  std::size_t open() {
    ++at_;
    skip_space();
    words_.push_back(0);
    return words_.size() - 1;
  }
  void close(std::size_t index, Kind kind) { words_[index] = word(kind, words_.size() - index - 1); }

  // Valid until more is read.
  Value value_at(std::size_t index) const { return {&words_[index], texts_}; }
  std::string_view text_of(std::size_t index) const { return value_at(index).text(); }

  bool has_duplicates(std::size_t object, const std::array<std::size_t, kFewKeys>& few, std::size_t count) const {
    if (count <= few.size()) {
      for (std::size_t i = 1; i < count; ++i) {
        const std::string_view key = text_of(few[i]);
        for (std::size_t j = 0; j < i; ++j) {
          const std::string_view earlier = text_of(few[j]);
          if (earlier.size() == key.size() && earlier == key) return true;
        }
      }
      return false;
    }
    std::vector<std::string_view> keys;
    keys.reserve(count);
    for (const auto& [key, member] : value_at(object).members()) keys.push_back(key);
    return are_some_equal(keys);
  }

  void note_stream(std::size_t index) {
    const auto number = value_at(index).as_uint();
    if (!number || *number == 0 || *number > UINT32_MAX) return;
    if (streams_->size() < kMaxStreamsFound) streams_->push_back(static_cast<std::uint32_t>(*number));
  }

  // ---- strings ----

  template <bool kCopies>
  bool string() {
    char* const begin = to_;
    if (!text<kCopies>()) return false;
    push_text(Kind::string, begin);
    return true;
  }

  // Without kCopies it is only looked at, and nothing is left of it.
  template <bool kCopies>
  bool text() {
#if defined(__SSE2__)
    // Most are short, and without escapes.
    if (const std::ptrdiff_t left = end_ - at_ - 1; left > 0) {
      const __m128i bytes = left >= 16 ? load_16(at_ + 1) : load_few(at_ + 1, static_cast<std::size_t>(left));
      const int count = std::countr_zero(special_16(bytes) | 0x10000U);
      if (count < std::min<std::ptrdiff_t>(left, 16) && at_[1 + count] == '"') {
        if (kCopies) store_16(bytes, to_);
        if (kCopies) to_ += count;
        at_ += count + 2;
        return true;
      }
    }
#endif
    bool is_closed = false;
    const auto read_special = [&](const char* at, char* to) __attribute__((always_inline)) -> Copied {
      if (*at == '\\' && end_ - at >= 2 && kMeanings[static_cast<unsigned char>(at[1])] != '\0') {
        *to = kMeanings[static_cast<unsigned char>(at[1])];
        return {at + 2, kCopies ? to + 1 : to};
      }
      is_closed = *at == '"';
      if (is_closed) return {nullptr, to};
      at_ = at;
      to_ = to;
      const bool is_read = unusual();
      return {is_read ? at_ : nullptr, kCopies ? to_ : to};
    };
    const Copied copied = copy_text<kCopies>(at_ + 1, end_, to_, read_special);
    at_ = copied.from;
    to_ = copied.to;
    if (at_ == end_) return fail("a string is not closed");
    if (!is_closed) return false;
    ++at_;
    return true;
  }

  bool unusual() {
    if (*at_ == '\\') return escape();
    if (static_cast<unsigned char>(*at_) >= 0x80) return characters();
    return fail("a control character in a string");
  }

  // A run of characters beyond ASCII.
  bool characters() {
    while (at_ < end_ && static_cast<unsigned char>(*at_) >= 0x80) {
      const std::size_t length = utf8_sequence({at_, end_});
      if (length == 0) return fail("not UTF-8");
      for (std::size_t i = 0; i < length; ++i) *to_++ = *at_++;
    }
    return true;
  }

  // One with a number.
  bool escape() {
    ++at_;
    if (!skip('u')) return fail("an unknown escape");
    std::uint32_t point = 0;
    if (!code_unit(point)) return fail("an escape without four hex digits");
    if (point >= 0xd800 && point < 0xe000) {
      std::uint32_t low = 0;
      const bool is_pair = point < 0xdc00 && skip('\\') && skip('u') && code_unit(low) && low >= 0xdc00 && low < 0xe000;
      if (!is_pair) return fail("lone surrogate in a string");
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    }
    append(point);
    return true;
  }

  bool code_unit(std::uint32_t& unit) {
    if (end_ - at_ < 4) return false;
    const auto [end, error] = std::from_chars(at_, at_ + 4, unit, 16);
    if (error != std::errc() || end != at_ + 4) return false;
    at_ += 4;
    return true;
  }

  void append(std::uint32_t point) {
    const auto put = [&](std::uint32_t byte) { *to_++ = static_cast<char>(byte); };
    if (point < 0x80) return put(point);
    if (point < 0x800) {
      put(0xc0 | point >> 6);
    } else {
      if (point < 0x10000) {
        put(0xe0 | point >> 12);
      } else {
        put(0xf0 | point >> 18);
        put(0x80 | (point >> 12 & 0x3f));
      }
      put(0x80 | (point >> 6 & 0x3f));
    }
    put(0x80 | (point & 0x3f));
  }

  // ---- numbers ----

  bool skip_digits() {
    const char* const first = at_;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ != first;
  }

  bool number() {
    const char* const first = at_;
    const bool is_negative = skip('-');
    if (!skip('0') && !skip_digits()) return fail("not a value");
    bool is_integer = true;
    if (skip('.')) {
      is_integer = false;
      if (!skip_digits()) return fail("a number that ends at its point");
    }
    if (next() == 'e' || next() == 'E') {
      is_integer = false;
      ++at_;
      if (!skip('+')) skip('-');
      if (!skip_digits()) return fail("a number without its exponent");
    }
    return is_integer ? integer(first, is_negative) : real(first);
  }

  bool integer(const char* first, bool is_negative) {
    constexpr std::int64_t kMostSmall = (std::int64_t{1} << (63 - Value::kKindBits)) - 1;
    std::int64_t whole = 0;
    if (at_ - first < 16) {  // as most are
      for (const char* digit = first + (is_negative ? 1 : 0); digit < at_; ++digit) whole = whole * 10 + (*digit - '0');
      push(Kind::small, static_cast<std::uint64_t>(is_negative ? -whole : whole));
      return true;
    }
    if (std::from_chars(first, at_, whole).ec == std::errc()) {
      if (whole >= -kMostSmall && whole <= kMostSmall) {
        push(Kind::small, static_cast<std::uint64_t>(whole));
      } else {
        push(Kind::signed64);
        words_.push_back(static_cast<std::uint64_t>(whole));
      }
      return true;
    }
    std::uint64_t huge = 0;
    if (is_negative || std::from_chars(first, at_, huge).ec != std::errc()) return fail("an integer beyond 64 bits");
    push(Kind::unsigned64);
    words_.push_back(huge);
    return true;
  }

  bool real(const char* first) {
    double number = 0;
    // It does not tell what is too small, and so zero, from what is too large.
    const bool is_extreme = std::from_chars(first, at_, number).ec != std::errc();
    if (is_extreme) number = std::strtod(std::string(std::string_view(first, at_)).c_str(), nullptr);
    if (!std::isfinite(number)) return fail("a number beyond a double");
    push(Kind::real);
    words_.push_back(std::bit_cast<std::uint64_t>(number));
    return true;
  }

  std::vector<std::uint64_t>& words_;
  char* texts_;
  char* to_;  // where the next string goes
  const char* at_;
  const char* end_;
  std::vector<std::uint32_t>* streams_;
  bool is_checking_ = false;  // the strings are for nobody
  const char* problem_ = nullptr;
};

}  // namespace sallyport::wire

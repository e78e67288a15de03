// Strict JSON: one small reader in, one small writer out.
//
// Refused on the way in, besides what is not JSON at all: nesting deeper than kMaxDepth, duplicate
// keys (compared after unescaping), invalid UTF-8, lone surrogates, numbers that no double or 64-bit
// integer holds, and anything behind the first value.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/limits.h"

namespace sallyport::wire {

// Texts up to this size leave their memory to the next one; that of longer ones is given back when all is
// quiet.
inline constexpr std::size_t kSmallBytes = 4U << 10;

// Far beyond any frame: the places and sizes of strings must fit into a word.
inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 28;

// A view of one value of a Document; valid as long as the Document lives. A default Value is absent.
class Value {
 public:
  Value() = default;

  bool exists() const { return word_ != nullptr; }
  explicit operator bool() const { return exists(); }
  bool is_null() const { return is(Kind::null); }
  bool is_object() const { return is(Kind::object); }
  bool is_array() const { return is(Kind::array); }
  bool is_string() const { return is(Kind::string); }

  std::optional<bool> as_bool() const;
  std::optional<std::int64_t> as_int() const;  // integers only; 1.0 is none
  std::optional<std::uint64_t> as_uint() const;
  std::optional<double> as_double() const;  // any number
  std::optional<std::string_view> as_string() const { return is_string() ? std::optional(text()) : std::nullopt; }
  // The text of a value that was checked, and kept as it came, because it is only passed on (see decode_message).
  std::optional<std::string_view> as_raw() const { return is(Kind::raw) ? std::optional(text()) : std::nullopt; }

  Value get(std::string_view key) const;  // absent if this is no object or has no such key
  std::size_t size() const;               // members or items; 0 for scalars

  struct Member;
  class MemberIterator;
  class ItemIterator;
  template <typename Iterator>
  struct Range {
    Iterator first, last;
    Iterator begin() const { return first; }
    Iterator end() const { return last; }
  };
  Range<MemberIterator> members() const;  // empty if this is no object
  Range<ItemIterator> items() const;      // empty if this is no array

  std::string to_json() const;  // compact text; "null" if absent
  std::size_t depth() const;    // of objects and arrays in each other; 0 for scalars

 private:
  friend class Decoder;
  friend class Document;
  friend class JsonReader;

  // A document is a row of words. The low byte of a word is its kind, the rest what the kind says: for a
  // string or raw text where it begins and its size, for an array or object how many words belong to it (the members'
  // keys and values in turn), for a small integer the integer. Larger numbers are the word behind it.
  enum class Kind : std::uint8_t { null, no, yes, small, signed64, unsigned64, real, string, raw, array, object };
  static constexpr unsigned kKindBits = 8, kSizeBits = 28;
  static_assert(kMaxTextBytes == std::size_t{1} << kSizeBits);

  Value(const std::uint64_t* word, const char* texts) : word_(word), texts_(texts) {}
  Kind kind() const { return static_cast<Kind>(*word_ & 0xff); }
  bool is(Kind wanted) const { return exists() && kind() == wanted; }
  std::string_view text() const {
    constexpr std::uint64_t kMask = (std::uint64_t{1} << kSizeBits) - 1;
    return {texts_ + (*word_ >> (kKindBits + kSizeBits)), (*word_ >> kKindBits) & kMask};
  }
  const std::uint64_t* behind() const;  // the word that follows this value

  const std::uint64_t* word_ = nullptr;
  const char* texts_ = nullptr;
};

struct Value::Member {
  std::string_view key;
  Value value;
};

class Value::MemberIterator {
 public:
  Member operator*() const { return {Value(word_, texts_).text(), Value(word_ + 1, texts_)}; }
  MemberIterator& operator++() {
    word_ = Value(word_ + 1, texts_).behind();
    return *this;
  }
  bool operator==(const MemberIterator& other) const { return word_ == other.word_; }

 private:
  friend class Value;
  MemberIterator(const std::uint64_t* word, const char* texts) : word_(word), texts_(texts) {}
  const std::uint64_t* word_;
  const char* texts_;
};

class Value::ItemIterator {
 public:
  Value operator*() const { return {word_, texts_}; }
  ItemIterator& operator++() {
    word_ = Value(word_, texts_).behind();
    return *this;
  }
  bool operator==(const ItemIterator& other) const { return word_ == other.word_; }

 private:
  friend class Value;
  ItemIterator(const std::uint64_t* word, const char* texts) : word_(word), texts_(texts) {}
  const std::uint64_t* word_;
  const char* texts_;
};

// One parsed value and its memory, which stays where it is when the Document is moved.
class Document {
 public:
  // Absent if nothing was parsed.
  Value root() const {
    return memory_ && !memory_->words.empty() ? Value(memory_->words.data(), as_text(memory_->texts.view()).data())
                                              : Value();
  }

 private:
  friend class Decoder;
  friend class JsonReader;
  struct Memory {
    Bytes texts;  // its strings, unescaped, one behind the other
    std::vector<std::uint64_t> words;
    bool is_small() const { return texts.capacity() <= kSmallBytes && words.capacity() <= kSmallBytes / 8; }
  };

  std::unique_ptr<Memory> memory_;
};

// Parses, and keeps the memory of documents that are done with. One per thread.
class Decoder {
 public:
  Result<Document> parse(std::string_view text);
  Result<Document> parse(ByteView text) { return parse(as_text(text)); }

  // An empty one with room for what is read from a text of that size. Not for kMaxTextBytes and more.
  Document make_room(std::size_t text_size);

  // Where the last text that was refused is wrong; a key that is there twice is noticed at the end of its object.
  std::size_t fault_at() const { return fault_at_; }

  void recycle(Document document);  // keeps its memory for a later parse
  void trim();                      // gives back what was kept

 private:
  std::vector<Document> spares_;  // small ones
  Document large_spare_;
  std::size_t fault_at_ = 0;
};

// Appends compact JSON to a buffer; places commas and colons. The caller balances begin and end.
class JsonWriter {
 public:
  explicit JsonWriter(Bytes& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);  // bytes that are no UTF-8 become U+FFFD
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag) { return raw(flag ? "true" : "false"); }
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(std::integral auto number) {
    if constexpr (std::is_signed_v<decltype(number)>) {
      return value(static_cast<std::int64_t>(number));
    } else {
      return value(static_cast<std::uint64_t>(number));
    }
  }
  JsonWriter& value(double number);  // null for what JSON cannot say (NaN, infinity)
  JsonWriter& value(Value copied);   // an absent value is null
  JsonWriter& null() { return raw("null"); }
  JsonWriter& raw(std::string_view json) {  // trusted to be one valid value
    separate();
    out_.append(json);
    return *this;
  }
  // Punctuation and keys that never change, in one piece; a value comes next.
  JsonWriter& verbatim(std::string_view text) {
    out_.append(text);
    needs_comma_ = false;
    return *this;
  }

  template <typename T>
  JsonWriter& member(std::string_view name, const T& content) {
    key(name);
    return value(content);
  }

  Bytes& out() { return out_; }

 private:
  JsonWriter& open(char bracket) {
    separate();
    out_.push_back(bracket);
    needs_comma_ = false;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_.push_back(bracket);
    needs_comma_ = true;
    return *this;
  }
  void separate() {
    if (needs_comma_) out_.push_back(',');
    needs_comma_ = true;
  }
  template <typename Integer>
  JsonWriter& integer(Integer number);

  Bytes& out_;
  bool needs_comma_ = false;
};

// Builds JSON text with a writer: to_json([](JsonWriter& json) { json.begin_object()...; }).
template <typename Fill>
std::string to_json(Fill&& fill) {
  Bytes out;
  JsonWriter writer(out);
  fill(writer);
  return std::string(as_text(out.view()));
}

}  // namespace sallyport::wire

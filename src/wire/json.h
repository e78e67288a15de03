// Strict JSON in (simdjson's DOM behind a small view), and one small writer out.
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

class Document;

// Longer texts are parsed with memory of their own, which is given back when all is quiet.
inline constexpr std::size_t kSmallBytes = 4U << 10;
inline constexpr std::size_t kMaxKeptBytes = 256;

// A view of one value of a Document; valid as long as the Document lives. A default Value is absent.
class Value {
 public:
  Value() = default;

  bool exists() const { return document_ != nullptr; }
  explicit operator bool() const { return exists(); }
  bool is_null() const;
  bool is_object() const;
  bool is_array() const;
  bool is_string() const;

  std::optional<bool> as_bool() const;
  std::optional<std::int64_t> as_int() const;  // integers only; 1.0 is none
  std::optional<std::uint64_t> as_uint() const;
  std::optional<double> as_double() const;  // any number
  std::optional<std::string_view> as_string() const;

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

 private:
  friend class Document;
  friend class Decoder;
  Value(const void* document, std::size_t index) : document_(document), index_(index) {}

  const void* document_ = nullptr;
  std::size_t index_ = 0;
};

struct Value::Member {
  std::string_view key;
  Value value;
};

class Value::MemberIterator {
 public:
  Member operator*() const;
  MemberIterator& operator++();
  bool operator==(const MemberIterator& other) const { return index_ == other.index_; }

 private:
  friend class Value;
  MemberIterator(const void* document, std::size_t index) : document_(document), index_(index) {}
  const void* document_;
  std::size_t index_;
};

class Value::ItemIterator {
 public:
  Value operator*() const { return {document_, index_}; }
  ItemIterator& operator++();
  bool operator==(const ItemIterator& other) const { return index_ == other.index_; }

 private:
  friend class Value;
  ItemIterator(const void* document, std::size_t index) : document_(document), index_(index) {}
  const void* document_;
  std::size_t index_;
};

// The memory of one parsed value. Reusable: a Decoder fills it again without allocating.
class Document {
 public:
  Document();
  Document(Document&&) noexcept;
  Document& operator=(Document&&) noexcept;
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  ~Document();

  Value root() const;             // absent if nothing was parsed
  std::string_view kept() const;  // what Decoder::keep() copied

 private:
  friend class Decoder;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What the check of a document found besides its being valid.
struct Findings {
  std::vector<std::uint32_t> streams;  // every {"$stream":n}, in order
};

// Parses, and owns the parser's scratch memory. One per thread; documents outlive the next parse.
class Decoder {
 public:
  Decoder() : Decoder(kMaxFrameBytes) {}
  explicit Decoder(std::size_t most);  // the longest text that is parsed
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder();

  // `text` must have Bytes::kPadding readable bytes behind it, as a FrameReader's frames have.
  Result<Document> parse_padded(ByteView text, Findings* findings = nullptr);
  Result<Document> parse(std::string_view text, Findings* findings = nullptr);  // copies first

  // A document without a value that holds a copy of a few bytes, kMaxKeptBytes at most.
  Document keep(ByteView bytes);
  // Parses the value of an object's member into a document made by keep(). The object around it counts
  // as one level of nesting. Small texts only. False: malformed; the document is without a value.
  bool parse_member(Document& into, ByteView text, Findings* findings);

  void recycle(Document document);  // keeps its memory for a later parse
  void trim();                      // gives back what large documents needed

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
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
  JsonWriter& raw(std::string_view json);  // trusted to be one valid value
  // Punctuation and keys that never change, in one piece; a value comes next.
  JsonWriter& verbatim(std::string_view text);

  template <typename T>
  JsonWriter& member(std::string_view name, const T& content) {
    key(name);
    return value(content);
  }

  Bytes& out() { return out_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
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

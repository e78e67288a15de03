#include "wire/json.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace sallyport::wire {
namespace {

namespace dom = simdjson::dom;
using simdjson::internal::tape_ref;

static_assert(Bytes::kPadding >= simdjson::SIMDJSON_PADDING);
static_assert(sizeof(dom::element) == sizeof(tape_ref) && std::is_trivially_copyable_v<dom::element>);

constexpr std::size_t kSpareDocuments = 64;

dom::element element_at(const void* document, std::size_t index) {
  return std::bit_cast<dom::element>(tape_ref(static_cast<const dom::document*>(document), index));
}
tape_ref tape_of(dom::element element) { return std::bit_cast<tape_ref>(element); }

static_assert(kMaxDepth == 32);
constexpr const char* kTooDeep = "nested deeper than 32";

// Checks what simdjson lets pass, in one walk over the tree.
class StrictCheck {
 public:
  StrictCheck(bool has_escapes, Findings* findings) : has_escapes_(has_escapes), findings_(findings) {}

  const char* check(dom::element element, std::size_t depth = 0) {
    switch (element.type()) {
      case dom::element_type::OBJECT:
        // simdjson does not count an innermost container that is empty.
        if (depth == kMaxDepth) return kTooDeep;
        return check_object(dom::object(element), depth + 1);
      case dom::element_type::ARRAY:
        if (depth == kMaxDepth) return kTooDeep;
        for (const dom::element item : dom::array(element)) {
          if (const char* problem = check(item, depth + 1)) return problem;
        }
        return nullptr;
      case dom::element_type::STRING:
        return check_text(std::string_view(element));
      default:
        return nullptr;
    }
  }

 private:
  // simdjson turns an escaped lone low surrogate into bytes that are no UTF-8.
  const char* check_text(std::string_view text) const {
    if (has_escapes_ && !simdjson::validate_utf8(text.data(), text.size())) return "lone surrogate in a string";
    return nullptr;
  }

  const char* check_object(dom::object object, std::size_t depth) {
    std::array<std::string_view, 16> few;
    std::size_t count = 0;
    const char* problem = nullptr;
    bool has_duplicates = false;
    for (const auto [key, value] : object) {
      problem = check_text(key);
      if (problem == nullptr) problem = check(value, depth);
      if (problem != nullptr) return problem;
      if (count < few.size()) {
        for (std::size_t i = 0; i < count; ++i) has_duplicates |= few.at(i) == key;
        few.at(count) = key;
      }
      ++count;
    }
    if (has_duplicates || (count > few.size() && has_duplicates_among_many(object, count))) return "duplicate key";
    if (count == 1 && findings_ != nullptr && few[0] == "$stream") note_stream(object);
    return nullptr;
  }

  static bool has_duplicates_among_many(dom::object object, std::size_t count) {
    std::vector<std::string_view> keys;
    keys.reserve(count);
    for (const auto [key, value] : object) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
  }

  void note_stream(dom::object object) {
    std::uint64_t number = 0;
    if (object["$stream"].get(number) != simdjson::SUCCESS || number == 0 || number > UINT32_MAX) return;
    // More than a connection may open is refused later; no need to remember them all.
    if (findings_->streams.size() <= kMaxOpenStreams) findings_->streams.push_back(static_cast<std::uint32_t>(number));
  }

  bool has_escapes_;
  Findings* findings_;
};

// ---- writing strings ----

constexpr char kPlain = 0;
constexpr char kUnicodeEscape = 'u';
// For each byte: kPlain, the letter behind the backslash, or 'u' for \u00xx.
constexpr std::array<char, 256> kEscapes = [] {
  std::array<char, 256> table{};
  for (std::size_t i = 0; i < 0x20; ++i) table.at(i) = kUnicodeEscape;
  table['"'] = '"';
  table['\\'] = '\\';
  table['\b'] = 'b';
  table['\f'] = 'f';
  table['\n'] = 'n';
  table['\r'] = 'r';
  table['\t'] = 't';
  return table;
}();

// Eight bytes at a time: not zero if any needs escaping. (Exact for ", \ and bytes below 0x20.)
std::uint64_t escapable(std::uint64_t word) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kHighs = 0x8080808080808080;
  const auto has_zero = [](std::uint64_t x) { return (x - kOnes) & ~x & kHighs; };
  const std::uint64_t control = (word - kOnes * 0x20) & ~word & kHighs;
  return has_zero(word ^ (kOnes * '"')) | has_zero(word ^ (kOnes * '\\')) | control;
}

// Appends text with escapes; the text is valid UTF-8.
void append_escaped(Bytes& out, std::string_view text) {
  const char* from = text.data();
  const char* const end = from + text.size();
  while (from != end) {
    const char* plain = from;
    while (end - plain >= 32) {
      std::array<std::uint64_t, 4> words{};
      std::memcpy(words.data(), plain, 32);
      if (escapable(words[0]) | escapable(words[1]) | escapable(words[2]) | escapable(words[3])) break;
      plain += 32;
    }
    while (plain != end && kEscapes[static_cast<unsigned char>(*plain)] == kPlain) ++plain;
    out.append(from, static_cast<std::size_t>(plain - from));
    if (plain == end) return;
    const auto byte = static_cast<unsigned char>(*plain);
    const char escape = kEscapes[byte];
    out.push_back('\\');
    out.push_back(escape);
    if (escape == kUnicodeEscape) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out.append("00");
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
    from = plain + 1;
  }
}

// Whether the text can be copied as it is: ASCII, and nothing to escape.
bool is_plain(std::string_view text) {
  const auto is_special = [](char c) {
    // As a signed number, every byte of a non-ASCII sequence is below 0x20 too.
    return static_cast<unsigned>((static_cast<signed char>(c) < 0x20) | (c == '"') | (c == '\\'));
  };
  // Blocks of fixed size become vector instructions.
  constexpr std::size_t kBlock = 64;
  while (text.size() >= kBlock) {
    unsigned char special = 0;
    for (std::size_t i = 0; i < kBlock; ++i) special |= static_cast<unsigned char>(is_special(text[i]));
    if (special != 0) return false;
    text.remove_prefix(kBlock);
  }
  for (; text.size() >= 8; text.remove_prefix(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    if (((word & 0x8080808080808080) | escapable(word)) != 0) return false;
  }
  unsigned special = 0;
  for (const char c : text) special |= is_special(c);
  return special == 0;
}

// The slow path for bytes from file names and the like: keeps every valid sequence.
std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    std::size_t length = 1;
    while (length < 4 && length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) ++length;
    while (length > 0 && !simdjson::validate_utf8(text.data(), length)) --length;
    if (length == 0) {
      valid += "\xef\xbf\xbd";
      length = 1;
    } else {
      valid += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return valid;
}

}  // namespace

// ---- Value ----

bool Value::is_null() const { return exists() && element_at(document_, index_).is_null(); }
bool Value::is_object() const { return exists() && element_at(document_, index_).is_object(); }
bool Value::is_array() const { return exists() && element_at(document_, index_).is_array(); }
bool Value::is_string() const { return exists() && element_at(document_, index_).is_string(); }

std::optional<bool> Value::as_bool() const {
  bool flag = false;
  if (!exists() || element_at(document_, index_).get(flag) != simdjson::SUCCESS) return std::nullopt;
  return flag;
}

std::optional<std::int64_t> Value::as_int() const {
  std::int64_t number = 0;
  if (!exists() || element_at(document_, index_).get(number) != simdjson::SUCCESS) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> Value::as_uint() const {
  std::uint64_t number = 0;
  if (!exists() || element_at(document_, index_).get(number) != simdjson::SUCCESS) return std::nullopt;
  return number;
}

std::optional<double> Value::as_double() const {
  double number = 0;
  if (!exists() || element_at(document_, index_).get(number) != simdjson::SUCCESS) return std::nullopt;
  return number;
}

std::optional<std::string_view> Value::as_string() const {
  std::string_view text;
  if (!exists() || element_at(document_, index_).get(text) != simdjson::SUCCESS) return std::nullopt;
  return text;
}

Value Value::get(std::string_view key) const {
  for (const Member& member : members()) {
    if (member.key == key) return member.value;
  }
  return {};
}

std::size_t Value::size() const {
  std::size_t count = 0;
  if (is_object()) {
    for ([[maybe_unused]] const Member& member : members()) ++count;
  } else if (is_array()) {
    for ([[maybe_unused]] const Value item : items()) ++count;
  }
  return count;
}

// On simdjson's tape a container's values start one past its own index and end at the closing
// bracket, one before what follows it; a member is its key and then its value.
Value::Range<Value::MemberIterator> Value::members() const {
  if (!is_object()) return {{document_, 0}, {document_, 0}};
  const tape_ref tape = tape_of(element_at(document_, index_));
  return {{document_, index_ + 1}, {document_, tape.after_element() - 1}};
}

Value::Range<Value::ItemIterator> Value::items() const {
  if (!is_array()) return {{document_, 0}, {document_, 0}};
  const tape_ref tape = tape_of(element_at(document_, index_));
  return {{document_, index_ + 1}, {document_, tape.after_element() - 1}};
}

Value::Member Value::MemberIterator::operator*() const {
  return {tape_of(element_at(document_, index_)).get_string_view(), Value(document_, index_ + 1)};
}
Value::MemberIterator& Value::MemberIterator::operator++() {
  index_ = tape_of(element_at(document_, index_ + 1)).after_element();
  return *this;
}
Value::ItemIterator& Value::ItemIterator::operator++() {
  index_ = tape_of(element_at(document_, index_)).after_element();
  return *this;
}

std::string Value::to_json() const {
  return wire::to_json([&](JsonWriter& json) { json.value(*this); });
}

// ---- Document and Decoder ----

struct Document::Impl {
  dom::document document;
  bool has_root = false;
  std::size_t kept_size = 0;
  std::array<char, kMaxKeptBytes> kept;
};

Document::Document() = default;
Document::Document(Document&&) noexcept = default;
Document& Document::operator=(Document&&) noexcept = default;
Document::~Document() = default;

Value Document::root() const {
  if (!impl_ || !impl_->has_root) return {};
  const tape_ref tape = tape_of(impl_->document.root());
  return {tape.doc, tape.json_index};
}

std::string_view Document::kept() const {
  return impl_ ? std::string_view(impl_->kept.data(), impl_->kept_size) : std::string_view();
}

struct Decoder::Impl {
  dom::parser small{kSmallBytes};
  std::size_t most = kMaxFrameBytes;
  std::unique_ptr<dom::parser> large;
  std::vector<Document> spares;  // small ones
  Document large_spare;
  Bytes padded;

  Document take_small();

  // Room for any small message, so that a recycled document never grows.
  static bool make_room(dom::document& document) {
    return document.capacity() >= kSmallBytes || document.allocate(kSmallBytes) == simdjson::SUCCESS;
  }
};

Decoder::Decoder(std::size_t most) : impl_(std::make_unique<Impl>()) {
  impl_->most = most;
  // simdjson allows as many open brackets as its depth, less one for the document itself.
  if (impl_->small.allocate(kSmallBytes, kMaxDepth + 1) != simdjson::SUCCESS) std::abort();
}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

Document Decoder::Impl::take_small() {
  Document document;
  if (!spares.empty()) {
    document = std::move(spares.back());
    spares.pop_back();
  } else {
    document.impl_ = std::make_unique<Document::Impl>();
  }
  return document;
}

Document Decoder::keep(ByteView bytes) {
  Document document = impl_->take_small();
  document.impl_->kept_size = std::min(bytes.size(), kMaxKeptBytes);
  std::memcpy(document.impl_->kept.data(), bytes.data(), document.impl_->kept_size);
  return document;
}

bool Decoder::parse_member(Document& into, ByteView text, Findings* findings) {
  dom::document& document = into.impl_->document;
  dom::element root;
  if (text.size() > kSmallBytes || !Impl::make_room(document) ||
      impl_->small.parse_into_document(document, text.data(), text.size(), false).get(root) != simdjson::SUCCESS) {
    return false;
  }
  const bool has_escapes = std::memchr(text.data(), '\\', text.size()) != nullptr;
  into.impl_->has_root = StrictCheck(has_escapes, findings).check(root, 1) == nullptr;
  return into.impl_->has_root;
}

Result<Document> Decoder::parse_padded(ByteView text, Findings* findings) {
  const bool is_large = text.size() > kSmallBytes;
  if (is_large && !impl_->large) {
    impl_->large = std::make_unique<dom::parser>(impl_->most);
    if (impl_->large->allocate(impl_->most, kMaxDepth + 1) != simdjson::SUCCESS) {
      impl_->large.reset();
      return Error::make(Code::unavailable, "out of memory");
    }
  }
  Document document = is_large ? std::move(impl_->large_spare) : impl_->take_small();
  if (!document.impl_) document.impl_ = std::make_unique<Document::Impl>();
  if (!is_large && !Impl::make_room(document.impl_->document)) {
    return Error::make(Code::unavailable, "out of memory");
  }
  dom::parser& parser = is_large ? *impl_->large : impl_->small;
  dom::element root;
  const simdjson::error_code failure =
      parser.parse_into_document(document.impl_->document, text.data(), text.size(), false).get(root);
  if (failure != simdjson::SUCCESS) {
    Error error = Error::make(Code::protocol_error, std::string("malformed JSON: ") + simdjson::error_message(failure));
    if (failure == simdjson::DEPTH_ERROR) {
      error.message = std::string("malformed JSON: ") + kTooDeep;
    }
    recycle(std::move(document));
    return error;
  }
  const bool has_escapes = std::memchr(text.data(), '\\', text.size()) != nullptr;
  if (const char* problem = StrictCheck(has_escapes, findings).check(root)) {
    recycle(std::move(document));
    return Error::make(Code::protocol_error, std::string("malformed JSON: ") + problem);
  }
  document.impl_->has_root = true;
  return document;
}

Result<Document> Decoder::parse(std::string_view text, Findings* findings) {
  impl_->padded.clear();
  impl_->padded.append(text);
  impl_->padded.reserve(1);  // an empty text still needs its padding
  return parse_padded(impl_->padded.view(), findings);
}

void Decoder::recycle(Document document) {
  if (!document.impl_) return;
  document.impl_->has_root = false;
  document.impl_->kept_size = 0;
  if (document.impl_->document.capacity() > kSmallBytes) {
    impl_->large_spare = std::move(document);
  } else if (impl_->spares.size() < kSpareDocuments) {
    impl_->spares.push_back(std::move(document));
  }
}

void Decoder::trim() {
  impl_->large.reset();
  impl_->large_spare = Document();
  impl_->spares.clear();
  impl_->padded.release();
}

// ---- JsonWriter ----

void JsonWriter::separate() {
  if (needs_comma_) out_.push_back(',');
  needs_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_.push_back(bracket);
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_.push_back(bracket);
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  out_.push_back(':');
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  if (is_plain(text)) {
    std::uint8_t* to = out_.extend(text.size() + 2);
    to[0] = '"';
    if (!text.empty()) std::memcpy(to + 1, text.data(), text.size());
    to[text.size() + 1] = '"';
    return *this;
  }
  out_.reserve(out_.size() + text.size() + 2);
  out_.push_back('"');
  if (simdjson::validate_utf8(text.data(), text.size())) {
    append_escaped(out_, text);
  } else {
    append_escaped(out_, replace_invalid_utf8(text));
  }
  out_.push_back('"');
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) { return integer(number); }
JsonWriter& JsonWriter::value(std::uint64_t number) { return integer(number); }

template <typename Integer>
JsonWriter& JsonWriter::integer(Integer number) {
  std::array<char, 24> text;  // 20 digits and a sign at most
  const char* end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return raw({text.data(), static_cast<std::size_t>(end - text.data())});
}

JsonWriter& JsonWriter::value(double number) {
  if (!(number - number == 0)) return null();  // NaN or infinite
  std::array<char, 64> text{};
  const char* end = simdjson::internal::to_chars(text.data(), text.data() + text.size(), number);
  return raw({text.data(), static_cast<std::size_t>(end - text.data())});
}

JsonWriter& JsonWriter::value(Value copied) {
  if (copied.is_object()) {
    begin_object();
    for (const auto& [name, content] : copied.members()) member(name, content);
    return end_object();
  }
  if (copied.is_array()) {
    begin_array();
    for (const Value item : copied.items()) value(item);
    return end_array();
  }
  if (const auto text = copied.as_string()) return value(*text);
  if (const auto flag = copied.as_bool()) return value(*flag);
  if (const auto whole = copied.as_int()) return value(*whole);
  if (const auto huge = copied.as_uint()) return value(*huge);
  if (const auto number = copied.as_double()) return value(*number);
  return null();
}

JsonWriter& JsonWriter::verbatim(std::string_view text) {
  out_.append(text);
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_.append(json);
  return *this;
}

}  // namespace sallyport::wire

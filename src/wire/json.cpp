#include "wire/json.h"

#include <algorithm>

#include "wire/json_reader.h"

namespace sallyport::wire {

constexpr std::size_t kSpareDocuments = 64;
constexpr std::size_t kFirstWords = 32;  // enough for a usual message

static std::size_t mix(std::string_view text) {
  std::uint64_t mixed = text.size();
  for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(text.size(), 8))) {
    std::uint64_t block = 0;
    std::memcpy(&block, text.data(), std::min<std::size_t>(text.size(), 8));
    mixed = (mixed ^ block) * 0x9e3779b97f4a7c15U;
    mixed ^= mixed >> 29;
  }
  return static_cast<std::size_t>(mixed);
}

// By a table, several times as fast as sorting them; for keys that are made to collide in it, by sorting them.
bool are_some_equal(std::vector<std::string_view>& keys) {
  const std::size_t mask = std::bit_ceil(2 * keys.size()) - 1;
  std::vector<std::uint32_t> table(mask + 1);  // which key, counted from 1
  std::size_t steps_left = 8 * keys.size();
  for (std::uint32_t i = 0; i < keys.size(); ++i) {
    std::size_t slot = mix(keys[i]) & mask;
    for (; table[slot] != 0; slot = (slot + 1) & mask) {
      if (keys[table[slot] - 1] == keys[i]) return true;
      if (--steps_left != 0) continue;
      std::sort(keys.begin(), keys.end());
      return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
    }
    table[slot] = i + 1;
  }
  return false;
}

// ---- Value ----

std::optional<bool> Value::as_bool() const {
  if (is(Kind::yes)) return true;
  if (is(Kind::no)) return false;
  return std::nullopt;
}

std::optional<std::int64_t> Value::as_int() const {
  if (is(Kind::small)) return static_cast<std::int64_t>(*word_) >> kKindBits;
  if (is(Kind::signed64)) return static_cast<std::int64_t>(word_[1]);
  return std::nullopt;
}

std::optional<std::uint64_t> Value::as_uint() const {
  if (is(Kind::unsigned64)) return word_[1];
  const auto whole = as_int();
  return whole && *whole >= 0 ? std::optional(static_cast<std::uint64_t>(*whole)) : std::nullopt;
}

std::optional<double> Value::as_double() const {
  if (is(Kind::real)) return std::bit_cast<double>(word_[1]);
  if (const auto whole = as_int()) return static_cast<double>(*whole);
  if (const auto huge = as_uint()) return static_cast<double>(*huge);
  return std::nullopt;
}

const std::uint64_t* Value::behind() const {
  switch (kind()) {
    case Kind::signed64:
    case Kind::unsigned64:
    case Kind::real:
      return word_ + 2;
    case Kind::array:
    case Kind::object:
      return word_ + 1 + (*word_ >> kKindBits);
    default:
      return word_ + 1;
  }
}

Value Value::get(std::string_view key) const {
  for (const Member& member : members()) {
    if (member.key == key) return member.value;
  }
  return {};
}

std::size_t Value::size() const {
  std::size_t count = 0;
  for ([[maybe_unused]] const Member& member : members()) ++count;
  for ([[maybe_unused]] const Value item : items()) ++count;
  return count;
}

Value::Range<Value::MemberIterator> Value::members() const {
  if (!is_object()) return {{nullptr, nullptr}, {nullptr, nullptr}};
  return {{word_ + 1, texts_}, {behind(), texts_}};
}

Value::Range<Value::ItemIterator> Value::items() const {
  if (!is_array()) return {{nullptr, nullptr}, {nullptr, nullptr}};
  return {{word_ + 1, texts_}, {behind(), texts_}};
}

std::size_t Value::depth() const {
  if (!is_object() && !is_array()) return 0;
  std::size_t deepest = 0;
  for (const auto& [key, value] : members()) deepest = std::max(deepest, value.depth());
  for (const Value item : items()) deepest = std::max(deepest, item.depth());
  return deepest + 1;
}

std::string Value::to_json() const {
  return wire::to_json([&](JsonWriter& json) { json.value(*this); });
}

// ---- Decoder ----

Document Decoder::make_room(std::size_t text_size) {
  Document document;
  if (text_size > kSmallBytes) {
    document = std::move(large_spare_);
  } else if (!spares_.empty()) {
    document = std::move(spares_.back());
    spares_.pop_back();
  }
  if (!document.memory_) document.memory_ = std::make_unique<Document::Memory>();
  document.memory_->texts.resize(text_size + kPlainSlack);
  document.memory_->words.clear();
  document.memory_->words.reserve(kFirstWords);
  return document;
}

Result<Document> Decoder::parse(std::string_view text) {
  if (text.size() >= kMaxTextBytes) return Error::make(Code::payload_too_large, "too much JSON");
  Document document = make_room(text.size());
  JsonReader reader(text, document);
  if (const char* problem = reader.read()) {
    fault_at_ = static_cast<std::size_t>(reader.at() - text.data());
    recycle(std::move(document));
    return Error::make(Code::protocol_error, std::string("malformed JSON: ") + problem);
  }
  return document;
}

void Decoder::recycle(Document document) {
  if (!document.memory_) return;
  if (!document.memory_->is_small()) {
    large_spare_ = std::move(document);
  } else if (spares_.size() < kSpareDocuments) {
    spares_.push_back(std::move(document));
  }
}

void Decoder::trim() {
  large_spare_ = Document();
  spares_.clear();
}

}  // namespace sallyport::wire

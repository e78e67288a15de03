// Values as bytes and back, for both ends of one build. A group of values has a fields(visitor, group) that names its
// members once, for reading and for writing. Internal to the module.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"

namespace sallyport::sandbox {

template <typename T>
constexpr bool kIsPlain = std::is_arithmetic_v<T>;

class FieldWriter {
 public:
  explicit FieldWriter(Bytes& out) : out_(out) {}
  template <typename... T>
  void operator()(T&... each) {
    (write(each), ...);
  }

 private:
  template <typename T>
    requires kIsPlain<T>
  void write(T value) {
    out_.append(&value, sizeof value);
  }
  void write(std::chrono::milliseconds& value) { write(static_cast<std::int64_t>(value.count())); }
  void write(std::string& text) {
    write(static_cast<std::uint32_t>(text.size()));
    out_.append(text);
  }
  template <typename T>
  void write(std::vector<T>& list) {
    write(static_cast<std::uint32_t>(list.size()));
    for (T& item : list) write(item);
  }
  template <typename T>
  void write(std::set<T>& items) {
    std::vector<T> list(items.begin(), items.end());
    write(list);
  }
  template <typename Key, typename T>
  void write(std::map<Key, T>& map) {
    std::vector<std::pair<Key, T>> list(map.begin(), map.end());
    write(list);
  }
  template <typename First, typename Second>
  void write(std::pair<First, Second>& both) {
    write(both.first);
    write(both.second);
  }
  template <typename T>
  void write(std::optional<T>& item) {
    write(item.has_value());
    if (item) write(*item);
  }
  template <typename T>
    requires(!kIsPlain<T>)
  void write(T& group) {
    fields(*this, group);
  }

  Bytes& out_;
};

class FieldReader {
 public:
  explicit FieldReader(ByteView from) : from_(from) {}
  template <typename... T>
  void operator()(T&... each) {
    (read(each), ...);
  }
  bool is_complete() const { return is_good_ && from_.empty(); }

 private:
  const std::uint8_t* take(std::size_t count) {
    if (!is_good_ || count > from_.size()) {
      is_good_ = false;
      return nullptr;
    }
    const std::uint8_t* place = from_.data();
    from_ = from_.subspan(count);
    return place;
  }
  template <typename T>
    requires kIsPlain<T>
  void read(T& value) {
    if (const std::uint8_t* place = take(sizeof value)) std::memcpy(&value, place, sizeof value);
  }
  void read(bool& value) {
    std::uint8_t byte = 0;
    read(byte);
    value = byte != 0;
  }
  void read(std::chrono::milliseconds& value) {
    std::int64_t count = 0;
    read(count);
    value = std::chrono::milliseconds(count);
  }
  void read(std::string& text) {
    std::uint32_t size = 0;
    read(size);
    if (const std::uint8_t* place = take(size)) text.assign(reinterpret_cast<const char*>(place), size);
  }
  template <typename T>
  void read(std::vector<T>& list) {
    std::uint32_t size = 0;
    read(size);
    // Every item takes a byte at least: a count beyond that is a lie, told before memory is spent.
    if (size > from_.size()) is_good_ = false;
    for (std::uint32_t i = 0; is_good_ && i < size; ++i) read(list.emplace_back());
  }
  template <typename T>
  void read(std::set<T>& items) {
    std::vector<T> list;
    read(list);
    items.insert(std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
  }
  template <typename Key, typename T>
  void read(std::map<Key, T>& map) {
    std::vector<std::pair<Key, T>> list;
    read(list);
    map.insert(std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
  }
  template <typename First, typename Second>
  void read(std::pair<First, Second>& both) {
    read(both.first);
    read(both.second);
  }
  template <typename T>
  void read(std::optional<T>& item) {
    bool has_value = false;
    read(has_value);
    if (has_value) read(item.emplace());
  }
  template <typename T>
    requires(!kIsPlain<T>)
  void read(T& group) {
    fields(*this, group);
  }

  ByteView from_;
  bool is_good_ = true;
};

}  // namespace sallyport::sandbox

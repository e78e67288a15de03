// A growable byte buffer that does not zero what it grows by, and the encodings used with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sallyport {

using ByteView = std::span<const std::uint8_t>;

inline ByteView as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

class Bytes {
 public:
  Bytes() = default;
  Bytes(Bytes&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Bytes& operator=(Bytes&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() = default;

  std::uint8_t* data() { return data_.get(); }
  const std::uint8_t* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  ByteView view() const { return {data_.get(), size_}; }

  void clear() { size_ = 0; }
  void release() { *this = Bytes(); }
  void resize(std::size_t size) {
    reserve(size);
    size_ = size;
  }
  void reserve(std::size_t capacity) {
    if (capacity > capacity_) grow(capacity);
  }
  void append(const void* from, std::size_t count) {
    if (count == 0) return;
    std::memcpy(extend(count), from, count);
  }
  void append(ByteView bytes) { append(bytes.data(), bytes.size()); }
  void append(std::string_view text) { append(text.data(), text.size()); }
  void push_back(char byte) { *extend(1) = static_cast<std::uint8_t>(byte); }

  // Grows by count bytes of unspecified content and returns where they start.
  std::uint8_t* extend(std::size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    std::uint8_t* place = data_.get() + size_;
    size_ += count;
    return place;
  }
  void erase_front(std::size_t count) {
    std::memmove(data_.get(), data_.get() + count, size_ - count);
    size_ -= count;
  }

 private:
  void grow(std::size_t wanted);

  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

std::string to_hex(ByteView bytes);
std::optional<std::string> from_hex(std::string_view text);     // lower or upper case, even length
std::string to_base64(std::string_view bytes);                  // RFC 4648, with padding
std::optional<std::string> from_base64(std::string_view text);  // strict: one spelling per value
std::string to_base64url(ByteView bytes);                       // no padding
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace sallyport

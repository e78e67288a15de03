// The newest bytes of a stream that never ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sallyport::containers {

class LogRing {
 public:
  static constexpr std::size_t kMostBytes = 256U << 10;

  void append(std::string_view bytes) {
    total_ += bytes.size();
    if (bytes.size() > kMostBytes) bytes.remove_prefix(bytes.size() - kMostBytes);
    // Drop in large steps, so that appending stays cheap.
    if (kept_.size() + bytes.size() > 2 * kMostBytes) kept_.erase(0, kept_.size() - (kMostBytes - bytes.size()));
    kept_ += bytes;
  }
  std::string_view tail() const {
    const std::string_view all = kept_;
    return all.size() > kMostBytes ? all.substr(all.size() - kMostBytes) : all;
  }
  // As much of it as fits into so many bytes of a JSON string.
  std::string_view tail(std::size_t json_bytes) const {
    const std::string_view all = tail();
    std::size_t from = all.size();
    for (std::size_t bytes = 0; from > 0; --from) {
      const auto byte = static_cast<unsigned char>(all[from - 1]);
      const bool is_doubled = byte == '"' || byte == '\\';
      bytes += byte < 0x20 ? 6 : byte >= 0x7f ? 3 : is_doubled ? 2 : 1;
      if (bytes > json_bytes) break;
    }
    return all.substr(from);
  }
  std::uint64_t total() const { return total_; }  // ever written
  // Nothing more will come: what is not kept takes no memory any more.
  void settle() { kept_ = std::string(tail()); }
  std::size_t capacity() const { return kept_.capacity(); }

 private:
  std::string kept_;
  std::uint64_t total_ = 0;
};

}  // namespace sallyport::containers

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
  std::uint64_t total() const { return total_; }  // ever written

 private:
  std::string kept_;
  std::uint64_t total_ = 0;
};

}  // namespace sallyport::containers

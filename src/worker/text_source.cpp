#include "worker/text_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "worker/limits.h"
#include "worker/text.h"

namespace sallyport::worker {

// A short read of a regular file is its end.
ssize_t TextSource::read_bytes(char* to, std::size_t room) {
  ssize_t count = 0;
  do count = ::read(fd_, to, room);
  while (count < 0 && errno == EINTR);
  is_file_read_ = count >= 0 && static_cast<std::size_t>(count) < room;
  return count;
}

ssize_t TextSource::read(char* to, std::size_t room) {
  if (is_utf16_) return read_decoded(to, room);
  ssize_t count = read_bytes(to, room);
  is_at_end_ = is_file_read_;
  if (is_begun_ || count < 2) return count;
  is_begun_ = true;
  const std::string_view start(to, static_cast<std::size_t>(count));
  is_big_endian_ = start.starts_with("\xfe\xff");
  is_utf16_ = is_big_endian_ || start.starts_with("\xff\xfe");
  if (is_utf16_) {
    bytes_ = start;
    return read_decoded(to, room);
  }
  if (start.starts_with("\xef\xbb\xbf")) {
    count -= 3;
    std::memmove(to, to + 3, static_cast<std::size_t>(count));
  }
  return count;
}

ssize_t TextSource::read_decoded(char* to, std::size_t room) {
  std::size_t filled = 0;
  while (filled < room) {
    if (taken_ == decoded_.size()) {
      if (bytes_.size() < kScanBufferBytes && !is_file_read_) {
        const std::size_t held = bytes_.size();
        bytes_.resize(held + kScanBufferBytes);
        const ssize_t count = read_bytes(bytes_.data() + held, kScanBufferBytes);
        bytes_.resize(held + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        if (count < 0) return -1;
      }
      decode(is_file_read_);
      if (decoded_.empty()) break;
    }
    const std::size_t count = std::min(decoded_.size() - taken_, room - filled);
    std::memcpy(to + filled, decoded_.data() + taken_, count);
    taken_ += count;
    filled += count;
  }
  is_at_end_ = is_file_read_ && bytes_.size() <= 2 && taken_ == decoded_.size();
  return static_cast<ssize_t>(filled);
}

// Half a unit or half a pair at the end waits for the rest.
void TextSource::decode(bool is_last) {
  std::size_t whole = bytes_.size();
  if (!is_last) {
    whole -= whole % 2;
    const auto high = [&] { return static_cast<unsigned char>(bytes_[whole - (is_big_endian_ ? 2 : 1)]); };
    if (whole >= 4 && high() >= 0xd8 && high() < 0xdc) whole -= 2;
  }
  decoded_ = utf16_to_utf8(std::string_view(bytes_).substr(0, whole), is_big_endian_);
  taken_ = 0;
  bytes_.erase(2, whole - 2);
}

}  // namespace sallyport::worker

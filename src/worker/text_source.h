// The text of a file from its beginning to its end: without a byte-order mark, and UTF-16, which one tells, as UTF-8.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace sallyport::worker {

class TextSource {
 public:
  explicit TextSource(int fd) : fd_(fd) {}

  // Up to `room` bytes (at least 3 at first), perhaps none though more are to come; -1 with errno.
  ssize_t read(char* to, std::size_t room);
  bool is_at_end() const { return is_at_end_; }

 private:
  ssize_t read_bytes(char* to, std::size_t room);
  ssize_t read_decoded(char* to, std::size_t room);
  void decode(bool is_last);

  int fd_;
  bool is_begun_ = false;
  bool is_utf16_ = false;
  bool is_big_endian_ = false;
  bool is_file_read_ = false;  // all of its bytes
  bool is_at_end_ = false;     // all of its text
  std::string bytes_;          // of UTF-16 that are not decoded yet, behind its mark
  std::string decoded_;
  std::size_t taken_ = 0;  // of decoded_
};

}  // namespace sallyport::worker

// fs.read: a page of a file, by lines or by bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "worker/limits.h"
#include "worker/root.h"
#include "worker/stop.h"

namespace sallyport::worker {

struct ReadRequest {
  enum class Encoding : std::uint8_t { automatic, utf8, base64 };

  std::string path;
  std::uint64_t offset = 1;                  // the first line wanted, from 1
  std::optional<std::uint64_t> limit;        // how many lines
  std::optional<std::uint64_t> byte_offset;  // instead of lines; from 0
  std::optional<std::uint64_t> byte_limit;
  std::size_t max_bytes = kDefaultPageBytes;  // of content, counted as escaped JSON
  bool line_numbers = false;
  std::optional<std::size_t> max_line_bytes;  // longer lines are cut; default only with line_numbers
  // utf8: what is no UTF-8 is refused; automatic: it comes as base64.
  Encoding encoding = Encoding::automatic;
  std::optional<bool> want_sha256;  // absent: if the whole file is read anyway
  // From an earlier answer to this request: it goes on there, whatever says where to begin. One that cannot be from it
  // is refused.
  std::string cursor;
};

struct ReadAnswer {
  std::string_view content;  // in `memory`, or in a part of it
  Bytes memory;
  bool is_base64 = false;
  std::uint64_t size = 0;
  std::optional<std::uint64_t> lines;  // of the whole file; absent if it was not counted
  std::uint64_t first_line = 0;        // of the content; 0 if none was counted
  std::uint64_t cut_lines = 0;
  std::int64_t mtime_ns = 0;
  std::string sha256;  // of the whole file; empty if it was not read
  std::string cursor;  // where to go on; empty when all that was asked for is here
  bool is_binary = false;
  bool is_masked = false;  // the sandbox shows an empty file in its place
};

// A page ends between lines where it can, and inside one only where a single line is longer than
// max_bytes. Content after a cut by `limit` is not a truncation: the caller asked for it. Pages that follow by
// their cursors end where the first request said.
Result<ReadAnswer> read_file(const Roots& roots, const ReadRequest& request, const Stop& stop = Stop());

}  // namespace sallyport::worker

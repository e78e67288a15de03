// fs.write, fs.edit and fs.multi_edit.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/edit.h"
#include "worker/file.h"
#include "worker/root.h"

namespace sallyport::worker {

// What `if_match` says when no file may be there.
inline constexpr std::string_view kAbsent = "absent";

struct WriteRequest {
  std::string path;
  std::string_view content;
  std::function<Status(int draft)> fill;  // instead of content, where set; the caller then knows size and hash
  std::optional<std::string> if_match;    // sha256 in hex of what is replaced, or kAbsent
  bool create_dirs = false;
  WriteOptions options;
};
struct WriteAnswer {
  std::size_t bytes_written = 0;
  std::string sha256;
  bool is_scratch = false;  // see Roots
};
Result<WriteAnswer> write_file(const Roots& roots, const WriteRequest& request, const Stop& stop = Stop());

struct EditRequest {
  std::string path;
  std::vector<Edit> edits;
  std::optional<std::string> if_match;
  WriteOptions options;
};
struct EditAnswer {
  std::size_t replacements = 0;
  std::string diff;
  bool diff_cut = false;
  bool is_diff_exact = true;
  std::string sha256;
  bool is_scratch = false;
};
// The bytes that are hashed for if_match are the bytes that are edited. What was stopped has changed nothing.
Result<EditAnswer> edit_file(const Roots& roots, const EditRequest& request, const Stop& stop = Stop());

}  // namespace sallyport::worker

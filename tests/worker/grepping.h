// What tests of searching share.
#pragma once

#include <string>
#include <utility>

#include "worker/grep.h"
#include "worker/sandbox_dir.h"

namespace sallyport::worker {

using Mode = SearchOptions::Mode;

inline GrepRequest request(std::string pattern) {
  GrepRequest grep;
  grep.pattern = std::move(pattern);
  return grep;
}

inline std::string lines(const GrepAnswer& answer) {
  std::string out;
  for (const GrepFile& file : answer.files) {
    for (const Hit& hit : file.found.hits) {
      out += file.path + (hit.is_context() ? "-" : ":") + std::to_string(hit.line) + (hit.is_context() ? "-" : ":") +
             hit.text + "\n";
    }
  }
  return out;
}

inline std::string run(const SandboxDir& box, const GrepRequest& grep_request) {
  const auto answer = grep(box.open(), grep_request, Stop());
  return answer ? lines(*answer) : "error: " + answer.error().describe();
}

}  // namespace sallyport::worker

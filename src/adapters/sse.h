// Server-sent events, from bytes as they arrive. No I/O.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/base.h"

namespace sallyport::adapters {

class SseReader {
 public:
  static constexpr std::size_t kMaxEventBytes = 1U << 20;

  // Calls `on_data` with the data of each event that is complete. PAYLOAD_TOO_LARGE if one has no end: final.
  Status feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data);

 private:
  Status take_line(std::string_view line, const std::function<void(std::string_view)>& on_data);

  std::string line_, data_;
  bool has_data_ = false;
  bool skips_newline_ = false;  // the one behind a carriage return
};

}  // namespace sallyport::adapters

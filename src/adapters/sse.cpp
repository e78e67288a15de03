#include "adapters/sse.h"

namespace sallyport::adapters {

Status SseReader::feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data) {
  for (const char c : bytes) {
    if (std::exchange(skips_newline_, false) && c == '\n') continue;
    if (c == '\n' || c == '\r') {
      skips_newline_ = c == '\r';
      const std::string line = std::exchange(line_, {});
      TRY(take_line(line, on_data));
      continue;
    }
    if (line_.size() >= kMaxEventBytes)
      return Error::make(Code::payload_too_large, "an event of the stream has no end");
    line_.push_back(c);
  }
  return ok();
}

Status SseReader::take_line(std::string_view line, const std::function<void(std::string_view)>& on_data) {
  if (line.empty()) {
    const std::string data = std::exchange(data_, {});
    if (std::exchange(has_data_, false)) on_data(data);
    return ok();
  }
  if (!line.starts_with("data:")) return ok();  // comments, names, retry times: nothing we use
  std::string_view value = line.substr(5);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (data_.size() + value.size() > kMaxEventBytes) {
    return Error::make(Code::payload_too_large, "an event of the stream has no end");
  }
  if (has_data_) data_.push_back('\n');
  data_.append(value);
  has_data_ = true;
  return ok();
}

}  // namespace sallyport::adapters

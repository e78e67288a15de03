// read: a page of a file as text, or an image or sound as a whole.
#pragma once

#include <optional>
#include <string>

#include "mcp/operation.h"

namespace sallyport::mcp {

class ReadOperation final : public Operation {
 public:
  using Operation::Operation;

 private:
  void on_answer(const Result<Answer>& answer) override;
  // An image or sound comes in as many parts as it needs.
  void take_media(wire::Value part);
  void finish_media();
  std::string path() { return std::string(call().arguments().get("path").as_string().value_or("")); }

  std::string media_, sha256_;  // what came of it so far
  std::optional<std::int64_t> mtime_;
};

}  // namespace sallyport::mcp

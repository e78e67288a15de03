// SHA-256, at once or piece by piece, as lower-case hex.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace sallyport::worker {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);
  std::string hex();  // once, at the end

 private:
  evp_md_ctx_st* context_;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace sallyport::worker

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sallyport::platform {

// Where a backend is. Neither user info nor query nor fragment can be in it.
struct Address {
  std::string scheme, host, path;
  std::uint16_t port = 0;
  std::string url() const;
};
Result<Address> parse_address(std::string_view url);

}  // namespace sallyport::platform

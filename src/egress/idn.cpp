#include "egress/idn.h"

#include <idn2.h>

#include <algorithm>
#include <memory>
#include <string>

namespace sallyport::egress {
namespace {

constexpr std::size_t kMaxTextBytes = 1024;

}  // namespace

Result<policy::Host> canonical_host(std::string_view text) {
  const bool is_ascii =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (is_ascii) return policy::parse_host(text);
  if (text.size() > kMaxTextBytes || text.find('\0') != std::string_view::npos) {
    return Error::make(Code::invalid_params, "is no host name");
  }
  char* raw = nullptr;
  const int failed = ::idn2_to_ascii_8z(std::string(text).c_str(), &raw, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);
  const std::unique_ptr<char, decltype(&idn2_free)> ascii(raw, &idn2_free);
  if (failed != IDN2_OK)
    return Error::make(Code::invalid_params, "is no international host name", ::idn2_strerror(failed));
  return policy::parse_host(ascii.get());
}

}  // namespace sallyport::egress

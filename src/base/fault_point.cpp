#include "base/fault_point.h"

#ifdef SALLYPORT_FAULTS
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>

namespace sallyport {

void fault_point(const char* name) {
  static const std::string kWanted = [] {
    const char* value = std::getenv("SALLYPORT_FAULT");
    return std::string(value == nullptr ? "" : value);
  }();
  static std::atomic<long> left = [] {
    const std::size_t colon = kWanted.find(':');
    return colon == std::string::npos ? 1L : std::strtol(kWanted.c_str() + colon + 1, nullptr, 10);
  }();
  if (kWanted.substr(0, kWanted.find(':')) == name && --left == 0) std::raise(SIGKILL);
}

}  // namespace sallyport
#endif

// The heads of the launcher's packets. Internal to the module.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "sandbox/launcher.h"

namespace sallyport::sandbox {

struct LauncherRequest {
  enum class Kind : std::uint32_t { launch, exec, signal, kill };
  Kind kind;
  std::uint32_t container;
  std::uint32_t job;
  std::int32_t value;
};

struct LauncherAnswer {
  LauncherEvent::Kind kind;
  std::uint32_t container;
  std::uint32_t job;
  std::int32_t value;
  std::uint32_t code;           // of a failure
  std::uint32_t detail_offset;  // where, in the text, the failure's detail begins
};

template <typename Head>
std::string with_head(const Head& head, const std::string& body) {
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof(head));
  return bytes += body;
}

template <typename Head>
bool take_head(std::string& bytes, Head& head) {
  if (bytes.size() < sizeof(head)) return false;
  std::memcpy(&head, bytes.data(), sizeof(head));
  bytes.erase(0, sizeof(head));
  return true;
}

}  // namespace sallyport::sandbox

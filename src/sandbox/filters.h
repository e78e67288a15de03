// The seccomp programs, made at build time from filter_rules.h.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>

namespace sallyport::sandbox {

enum class Filter : std::uint8_t {
  command,           // refusals answer an error
  command_notified,  // refusals that are violations ask the supervisor, which answers the error
  weak,              // for the mode without namespaces
  traced,            // added to one of the above: stops at traced_calls.h for the tracer
  start,             // added before a command is executed
  worker,            // an allow-list, loaded on top of the container's own
};

// Constant memory of this program: valid for ever, loadable without allocation.
std::span<const sock_filter> filter_program(Filter filter);

}  // namespace sallyport::sandbox

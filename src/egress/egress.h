// The egress proxy. See docs/egress.md.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace sallyport::egress {

// Serves containers as the other end of the socket tells, until that end is closed. First gives up what a proxy does
// not need: writing and executing files, new privileges, being looked into. Returns the exit status.
int run_proxy(UniqueFd socket, const std::string& hosts_file);

}  // namespace sallyport::egress

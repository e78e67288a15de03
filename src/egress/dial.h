// A TCP connection to the first of several addresses that answers.
#pragma once

#include <memory>
#include <vector>

#include "base/base.h"
#include "ipc/loop.h"
#include "policy/host.h"

namespace sallyport::egress {

struct Dialled {
  std::unique_ptr<ipc::Watch> socket;
  policy::Address address;
};

// Tries them in turn, families alternating, the next one beside those that have not answered after kDialStagger.
// TIMEOUT after `patience`; else the last failure: IO_ERROR with its errno.
Task<Result<Dialled>> dial(ipc::Loop& loop, std::vector<policy::Address> addresses, std::uint16_t port,
                           Millis patience);

// Whether packets to this address would stay on this machine. Sends nothing.
bool is_own_address(const policy::Address& address);

}  // namespace sallyport::egress

// The network of a sandbox: a loopback of its own, and the proxy's listener on it.
#pragma once

#include "sandbox/raw_call.h"

namespace sallyport::sandbox {

// In the new namespace of the calling thread; with a listener on kProxyPort if `listener` is given. Neither allocates
// nor locks nor touches errno.
Answer set_up_network(int* listener);

}  // namespace sallyport::sandbox

// The network of a sandbox: a loopback of its own, and the proxy's listener on it.
#pragma once

namespace sallyport::sandbox {

// In the new namespace of the calling thread; with a listener on kProxyPort if `listener` is given. Neither allocates
// nor locks. False: errno says why.
bool set_up_network(int* listener);

}  // namespace sallyport::sandbox

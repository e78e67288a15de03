// The network of a sandbox: a loopback of its own, and the proxy's listener on it.
#pragma once

namespace sallyport::sandbox {

// For the calling thread, from here on; with a listener on kProxyPort if `listener` is given. Neither allocates nor
// locks. False: errno says why.
bool make_network(int* listener);

}  // namespace sallyport::sandbox

// The network of a sandbox: a loopback of its own, and the proxy's listener on it.
#pragma once

namespace sallyport::sandbox {

// For the calling thread, from here on; with a listener on kProxyPort if `listener` is given, and together with
// namespaces of these other kinds (CLONE_NEW...). Neither allocates nor locks. False: errno says why.
bool make_network(int* listener, int others = 0);

}  // namespace sallyport::sandbox

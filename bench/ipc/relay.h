// Passes bytes both ways and does nothing else: what any process in between costs at the least.
#pragma once

namespace sallyport::bench {

// Until one of them ends; then so does this process.
[[noreturn]] void relay(int one, int other);

}  // namespace sallyport::bench

#include "base/task.h"

namespace sallyport {

void* FrameMemory::make(std::size_t size) { return ::operator new((size + kGrain - 1) / kGrain * kGrain); }

void FrameMemory::destroy(void* frame) noexcept { ::operator delete(frame); }

}  // namespace sallyport

// Places at which a test build can be made to die, to see that nothing is lost or done twice.
//
// In a build with SALLYPORT_FAULTS, a process whose environment has SALLYPORT_FAULT=NAME or NAME:N kills
// itself with SIGKILL when it comes to that place (for the Nth time). Otherwise this is nothing.
#pragma once

namespace sallyport {

#ifdef SALLYPORT_FAULTS
void fault_point(const char* name);
#else
inline void fault_point(const char*) {}
#endif

}  // namespace sallyport

// Declarations of macOS, as far as os/peer_macos.cpp uses them.
#pragma once
#include <sys/time.h>
#include <sys/types.h>
#define CTL_KERN 1
#define KERN_PROC 14
#define KERN_PROC_PID 1
struct extern_proc {
  timeval p_starttime;
};
struct kinfo_proc {
  extern_proc kp_proc;
};
extern "C" int sysctl(int*, u_int, void*, size_t*, void*, size_t);

// Declarations of macOS, as far as os/peer_macos.cpp uses them.
#pragma once
#include <sys/types.h>
#define XUCRED_VERSION 0
#define LOCAL_PEERCRED 0x001
#define LOCAL_PEERPID 0x002
#define SOL_LOCAL 0
struct xucred {
  u_int cr_version;
  uid_t cr_uid;
  short cr_ngroups;
  gid_t cr_groups[16];
};

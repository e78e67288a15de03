// The calls that --explain stops at: those that name a path or an address.
#pragma once

#include <sys/syscall.h>

#include <array>

namespace sallyport::sandbox {

struct TracedCall {
  int call;
  const char* name;
  int directory;  // which argument is the directory; -1: the working directory
  int path;       // which argument is the path or the address
};

inline constexpr auto kTracedCalls = std::to_array<TracedCall>({
#ifdef __x86_64__
    {SYS_open, "open", -1, 0},         {SYS_creat, "creat", -1, 0},       {SYS_stat, "stat", -1, 0},
    {SYS_lstat, "lstat", -1, 0},       {SYS_access, "access", -1, 0},     {SYS_unlink, "unlink", -1, 0},
    {SYS_mkdir, "mkdir", -1, 0},       {SYS_rmdir, "rmdir", -1, 0},       {SYS_rename, "rename", -1, 1},
    {SYS_link, "link", -1, 1},         {SYS_symlink, "symlink", -1, 1},   {SYS_chmod, "chmod", -1, 0},
    {SYS_chown, "chown", -1, 0},       {SYS_readlink, "readlink", -1, 0},
#endif
    {SYS_openat, "openat", 0, 1},      {SYS_newfstatat, "stat", 0, 1},    {SYS_statx, "statx", 0, 1},
    {SYS_faccessat, "access", 0, 1},   {SYS_faccessat2, "access", 0, 1},  {SYS_execve, "execve", -1, 0},
    {SYS_unlinkat, "unlink", 0, 1},    {SYS_mkdirat, "mkdir", 0, 1},      {SYS_renameat, "rename", 2, 3},
    {SYS_renameat2, "rename", 2, 3},   {SYS_linkat, "link", 2, 3},        {SYS_symlinkat, "symlink", 1, 2},
    {SYS_fchmodat, "chmod", 0, 1},     {SYS_fchownat, "chown", 0, 1},     {SYS_utimensat, "utimens", 0, 1},
    {SYS_truncate, "truncate", -1, 0}, {SYS_chdir, "chdir", -1, 0},       {SYS_connect, "connect", -1, 1},
});

}  // namespace sallyport::sandbox

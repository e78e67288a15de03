// Processes that are not what they should be: other users, other namespaces, other lives of a pid.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/unique_fd.h"

namespace sallyport::testing {

// An unprivileged uid for tests that start as root.
inline constexpr uid_t kOrdinaryUid = 65534;

// Drops root for good; dumpable again, as an ordinary login is.
void become_ordinary();
bool is_root();

// How a ping over this socket went, as an exit status.
enum Outcome { kServed = 0, kRefused = 10, kClosed = 11, kUnreachable = 12, kOther = 13 };
int try_ping(const std::string& socket_path);
int try_call(const std::string& socket_path, const std::string& method, const std::string& params,
             const std::string& token);

// Runs work in a child inside new namespaces (CLONE_NEW...); kOther if they cannot be had.
int in_namespaces(int flags, const std::function<int()>& work);
bool can_unshare(int flags);

// From now on the kernel does as before 6.5: it has no SO_PEERPIDFD and tells no namespaces by pidfd. For good, and for
// what is executed later.
void become_old_kernel();

// Forks a child that gets this very pid; -1 if the kernel does not let us choose.
pid_t fork_with_pid(pid_t pid);

// One message with descriptors attached.
bool send_with_descriptors(int socket, const std::string& bytes, const int* descriptors, std::size_t count);
UniqueFd receive_descriptor(int socket);

}  // namespace sallyport::testing

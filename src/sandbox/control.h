// The messages between a sandbox's pid 1 and the process that made it: plain structures over a
// SOCK_SEQPACKET pair, since both ends are the same program. The end of the socket is the end of
// the sandbox: pid 1 exits when its peer is gone, and the kernel kills everything below it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sandbox/steps.h"

namespace sallyport::sandbox {

// From pid 1.
struct Notice {
  enum class Kind : std::uint32_t {
    failed,       // value: errno; step and index say where. The launch is over, or the job if job > 0
    network,      // its namespace is made, and comes along. Once, before anything else that is not a failure
    started,      // job runs; the first one carries the descriptors named by Handover
    exited,       // value: wait status
    stopped,      // value: of Request::Kind::stop its number, else 0
    over_memory,  // value: MiB in use when everything was killed
    went_on,      // while it was stopped: everything was killed
    refused,      // value: errno; index: the call; followed by the path or address
  };
  Kind kind;
  Step step;
  std::uint32_t job;
  std::int32_t value;
  std::int32_t pid;      // inside the sandbox
  std::uint32_t index;   // which item or cover failed
  std::uint32_t handed;  // bits of Handover: the descriptors that came along; for their order see Running::State::take
};

enum Handover : std::uint32_t {
  kUserNamespace = 1,
  kMountNamespace = 2,
  kPidNamespace = 4,
  kMountInfo = 8,
  kViolations = 16,
  kProxyListener = 32,
  kNetworkNamespace = 64,
};
constexpr std::size_t kMaxHandover = 5;  // at once

// To pid 1. Kind::exec is followed by its strings, each with its NUL: directory, arguments,
// environment; and carries the descriptors that become 0, 1, 2, ... of the command. Kind::worker carries
// one: the worker's socket. Kind::stop stops all that runs, which Notice::Kind::stopped says, and Kind::resume lets it
// go on; the first command has its terminal again then. Kind::go comes first and once, with the namespace of the
// network if there is one: pid 1 waits for it before anything foreign runs.
struct Request {
  enum class Kind : std::uint32_t { exec, signal, stop, resume, worker, go };
  Kind kind;
  std::uint32_t job;
  std::int32_t value;  // the signal; of a stop its number, which is not 0
  std::uint32_t arguments;
  std::uint32_t variables;
};

// Limits of the protocol, so that pid 1 needs no allocation.
constexpr std::size_t kMaxRequestBytes = 128 * 1024;  // below the default socket buffer
constexpr std::size_t kMaxWords = 8192;               // arguments and variables of one request
constexpr std::size_t kMaxJobs = 256;                 // running at once in one sandbox
constexpr std::size_t kMaxPassedFds = 16;

// Where pid 1 keeps its own descriptors.
constexpr int kControlFd = 3;

}  // namespace sallyport::sandbox

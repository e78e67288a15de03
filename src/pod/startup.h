// Bringing a pod to life: what its creator hands over, and how it learns that the pod is there.
#pragma once

#include <optional>
#include <string>

#include "base/base.h"
#include "pod/limits.h"
#include "pod/record.h"
#include "pod/terminal.h"
#include "policy/net.h"
#include "sandbox/spec.h"

namespace sallyport::pod {

struct Startup {
  std::string name, pods_dir;
  wire::Token token{};  // made by the creator; never in arguments, environment or logs
  std::string profile;
  std::string container;                 // by which the warden knows its sandbox
  std::optional<policy::NetPolicy> net;  // with spec.has_proxy: where its agent may connect to
  std::string hosts_file;                // for its proxy; see egress/resolver.h
  bool with_tcp = false;
  Size size;
  std::size_t ring_bytes = kDefaultRingBytes;
  Millis keep = kKeepExited;
  sandbox::Spec spec;
};

Result<Bytes> encode(const Startup& startup);
Result<Startup> decode_startup(ByteView bytes);

// In the new program, descriptor 2 is the creator's pipe until the pod has a log of its own: whatever it says until
// then are its last words, and so is an error later on; a success ends with this byte. Descriptor 3 holds the encoded
// Startup, descriptor 4 the lock of the pod's directory: held from before the spawn to the pod's end, whoever dies
// meanwhile, so that a pod which is on its way can always be told from one that is gone.
inline constexpr int kStartupFd = 3, kLockFd = 4;
inline constexpr char kReadyByte = '\x06';

// The lock of a new pod's directory; nothing while somebody else has it: a pod that lives, or for an instant whoever
// looks whether one does. CONFLICT if a pod left a status there that nobody has collected, or was lost and nobody
// knows.
Result<std::optional<UniqueFd>> claim(const Startup& startup);
// Why this name cannot be had while there is a pod in this state.
Error taken(const std::string& name, Life life);

struct Launched {
  UniqueFd pipe;  // readable when something was said; at its end the outcome is known
  // Of the intermediate process, which ends at once; to be reaped. It leads the session of all that begins there, whose
  // number is nobody else's until then.
  pid_t pid = -1;
};
// Starts `sallyport-pod` detached: a session of its own, no terminal, no inherited descriptors or variables.
Result<Launched> spawn(const Startup& startup, const UniqueFd& lock);
// What all that came through the pipe says: ok, or why the daemon died.
Status outcome(std::string_view said);
// The record the new daemon published. A token other than ours means that somebody tampered with it.
Result<Record> verify(const Startup& startup);

}  // namespace sallyport::pod

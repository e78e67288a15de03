// What a pod's own door serves: attach log resize role signal stop status wait, and to the warden reports and net.
#pragma once

#include <memory>

#include "ipc/ipc.h"
#include "pod/daemon.h"

namespace sallyport::pod {

// Whoever is let in at the door is the pod's own user outside any sandbox, and may do all of it. Principals
// with fewer rights reach a pod through the warden only, which decides first.
class Service {
 public:
  static Fire answer(Daemon& pod, const std::shared_ptr<ipc::Session>& session, wire::Message&& request);

 private:
  Service(Daemon& pod, ipc::Call& call) : pod_(pod), call_(call), peer_(pod.peer_of(call.session())) {}
  Task<ipc::Reply> dispatch();

  ipc::Reply attach();
  ipc::Reply log();
  ipc::Reply resize();
  ipc::Reply role();
  ipc::Reply signal();
  ipc::Reply stop();
  ipc::Reply status();
  ipc::Reply net();
  ipc::Reply link();
  Task<ipc::Reply> wait();
  Task<ipc::Reply> worker();
  // Answers when there is something to report, or when the agent has ended and who asks does not know it yet.
  Task<ipc::Reply> reports();
  void report(const ipc::Reply& reply);

  Daemon::OutputPtr own_output() const;  // of the session that asks; null if it is not attached
  ipc::Reply done();

  Daemon& pod_;
  ipc::Call& call_;
  Daemon::Peer peer_;  // while the session is there to tell
};

}  // namespace sallyport::pod

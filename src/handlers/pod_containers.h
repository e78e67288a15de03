// A pod's sandbox is a container of the warden's: it has a door and a mailbox, what it does is recorded, and a warden
// that finds the pod alive takes all of it up again.
#pragma once

#include <optional>
#include <string>

#include "handlers/method.h"

namespace sallyport::handlers {

// The pod runs: whoever comes to its door from its sandbox is that container.
void adopt_pod(Host& host, const pod::Record& record);
// One that lived on without the warden that made it, or came to life since, is adopted again.
void adopt_pod_again(Host& host, const pod::Record& record);
// What is left of pods of this name that are over. What they have dropped in their mailboxes is still answered.
void forget_ended_pods(Host& host, const std::string& name);
// Its agent is over. What it has dropped in its mailbox is still answered, then the container is forgotten.
void end_pod(Host& host, const std::string& container, int wait_status);

// Something that happened at the pod itself, for the ledger. See pod/reports.h.
void record_pod(Host& host, const pod::Record& record, wire::Value report);

// The net rules that hold for a container now; nothing is allowed where they cannot be told.
policy::NetPolicy net_policy_of(const Host& host, const std::string& container);

}  // namespace sallyport::handlers

// What the egress proxy reports, brought into the ledger and to subscribers.
#pragma once

#include "egress/protocol.h"
#include "handlers/method.h"

namespace sallyport::handlers {

// A decision and an outcome of method `egress.connect`, with HOST:PORT as its session; never what was asked for there.
// What a rule refused is a violation too.
void record_connection(Host& host, const egress::Report& report);

// The same for a third-party adapter, in whose name the adapters say it: {"adapter":NAME,"report":{...}}.
void record_adapter_connection(Host& host, wire::Value said);

// The sums per host of a sandbox whose maker ran its proxy itself: an array as egress::Tally writes it.
void record_connections(Host& host, const std::string& container, wire::Value tally);

}  // namespace sallyport::handlers

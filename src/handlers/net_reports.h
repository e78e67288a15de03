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

// What the proxy of a sandbox said whose maker runs it himself: an array of reports. INVALID_PARAMS if one is none.
Status take_reports(Host& host, const std::string& container, wire::Value reports);

}  // namespace sallyport::handlers

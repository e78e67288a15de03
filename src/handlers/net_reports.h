// What the egress proxy reports, brought into the ledger and to subscribers.
#pragma once

#include "egress/protocol.h"
#include "handlers/method.h"

namespace sallyport::handlers {

// A decision and an outcome of method `egress.connect`, with HOST:PORT as its session; never what was asked for there.
// What a rule refused is a violation too.
void record_connection(Host& host, const egress::Report& report);

}  // namespace sallyport::handlers

// The command line's connection to the warden.
#pragma once

#include <memory>

#include "base/base.h"
#include "client/client.h"
#include "os/paths.h"

namespace sallyport::cli {

// Connects to a warden that runs; UNAVAILABLE, with what to do, if none does.
Result<std::unique_ptr<Client>> connect_warden(const os::Paths& paths);

// For what the warden answers at once, whatever else it does.
inline constexpr Millis kQuickAnswer{5'000};
// A TIMEOUT of such a call with what to do about a warden that hangs; other errors as they are.
Error explain_silence(Error error, const Client& client, const os::Paths& paths);

// What a call waits for, or what became of its record, on stderr. Every connection does this unless it is told to do
// something else with events.
void tell_of(const wire::Message& event);

struct Started {
  std::unique_ptr<Client> client;
  bool was_running = false;
};
// Connects, starting the warden first if none runs: detached, its log in the state directory. It counts
// as started when it answered a framed test.ping; one that dies says why with its last words.
// One that is just stopping is waited for.
Result<Started> ensure_warden(const os::Paths& paths);

// All pages of a list as one: the items of `name`, which `key` tells apart, and what else the last page says.
Result<wire::Document> call_for_all(Client& client, std::string_view method, std::string_view name,
                                    std::string_view key);

// What sallyportd exits with when another one holds the runtime directory: try again later.
inline constexpr int kExitPlaceTaken = 75;

}  // namespace sallyport::cli

// Takes an agent's structured output from its captured stdout to subscribers: container.message and
// container.progress. No text comes from anywhere else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/task.h"
#include "containers/registry.h"
#include "ledger/ledger.h"

namespace sallyport::scheduler {

using Publish = std::function<void(std::string_view event, const std::string& params)>;

class OutputRouter {
 public:
  OutputRouter(containers::Registry& registry, ledger::Ledger& ledger, Publish publish)
      : registry_(registry), ledger_(ledger), publish_(std::move(publish)) {}

  struct Routed {
    std::uint64_t messages = 0, progress = 0, malformed = 0, lost_bytes = 0;
  };
  // Everything since the last time, each line once: how far it went is on the disk before anybody is told.
  // CONFLICT if the container's output is not captured. `task` names the scheduled task it belongs to, if any.
  Task<Result<Routed>> route(std::shared_ptr<containers::Container> container, std::string task);

 private:
  containers::Registry& registry_;
  ledger::Ledger& ledger_;
  Publish publish_;
};

void describe(wire::JsonWriter& json, const OutputRouter::Routed& routed);

}  // namespace sallyport::scheduler

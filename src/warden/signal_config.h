// The tables [signal.NAME] and [deploy.NAME] of sallyport.toml. For .cpp files only, as toml_table.h is.
//
//   [signal.restock]
//   tier = 2                                         # 1: no payload. 2: carries one
//   action = ["/usr/local/bin/restock", "{container}"]   # or "event": to subscribers, as signal.restock
//   timeout_ms = 60000
//   idempotent = false                               # true: may be run again after a crash
//   [signal.restock.payload]
//   item = { type = "string", required = true, max = 64 }
//
//   [deploy.site]
//   repository = "/srv/site"
//   command = ["/usr/local/bin/deploy-site", "{commit}"]
//   timeout_ms = 600000
#pragma once

#include <string>
#include <vector>

#include "policy/toml_table.h"
#include "scheduler/declared.h"

namespace sallyport::warden {

Result<std::vector<scheduler::DeclaredSignal>> read_signals(const std::string& path, const toml::node& node);
Result<scheduler::Deployments> read_deployments(const std::string& path, const toml::node& node);

}  // namespace sallyport::warden

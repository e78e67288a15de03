// What the host's configuration declares: signals of its own, and what can be deployed.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "wire/schema.h"

namespace sallyport::scheduler {

// [signal.NAME]
struct DeclaredSignal {
  std::string name;
  int tier = 1;
  bool is_idempotent = false;
  std::vector<std::string> command;  // empty: an event to subscribers, signal.NAME
  Millis timeout{60'000};
  std::deque<std::string> names;  // of the fields below, which only refer to them
  std::vector<wire::Field> fields;
};
inline const std::vector<std::string_view> kSignalPlaceholders = {"signal", "container", "group", "request_id", "key"};

// [deploy.NAME]
struct Deployment {
  std::string name;
  std::string repository;  // an absolute path
  std::vector<std::string> command;
  Millis timeout{600'000};
};
inline const std::vector<std::string_view> kDeployPlaceholders = {"commit", "repository", "name", "container", "group"};

using Deployments = std::map<std::string, Deployment, std::less<>>;

// All that may run because of them, each with what it is for.
std::string commands_json(const std::vector<DeclaredSignal>& signals, const Deployments& deployments);

// The eight that are always there cannot be declared again.
bool is_builtin_signal(std::string_view name);

}  // namespace sallyport::scheduler

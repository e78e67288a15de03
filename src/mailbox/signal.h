// A signal is a row of a table, as a method is: its name, what it may carry, and what the host does about it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/task.h"
#include "permit/permit.h"
#include "wire/schema.h"

namespace sallyport::mailbox {

// A signal that a container raised, by a file in its mailbox or over its door.
struct Raised {
  std::string container;
  std::string request_id;  // empty for tier 1
  std::string payload;     // canonical JSON, checked against the schema; empty for tier 1
  std::string key;         // of this execution: the same after a crash, for idempotent actions
};

// Does it, and answers with JSON. Needs a permit like every handler.
using Action = std::function<Task<Result<std::string>>(const Permit&, const Raised&)>;

struct Signal {
  std::string name;
  int tier = 1;  // 1: a name and nothing else. 2: carries a payload, and is journalled and reviewed
  wire::Schema payload = {};
  bool is_idempotent = false;  // an action cut short by a crash may be run again under the same key
  Action action;
  // Whether it could be done at all, as things are: asked before anybody reviews it. Absent: yes.
  std::function<Status(const Raised&)> check = {};
  // The command line that will run, for those who review it. Absent, or empty: none does.
  std::function<std::vector<std::string>(const Raised&)> command = {};
};

}  // namespace sallyport::mailbox

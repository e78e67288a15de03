// What is written down about a container, so that it is not forgotten with the warden.
#pragma once

#include <string>
#include <vector>

#include "base/base.h"
#include "containers/container.h"

namespace sallyport::containers {

// `$STATE/containers/<id>.json`, mode 0600, replaced atomically.
Status write_record(const std::string& directory, const Container& container);
void remove_record(const std::string& directory, const std::string& id);
// Those that can be read, as `lost` unless they had ended already; the others are named in `faults`.
std::vector<std::shared_ptr<Container>> read_records(const std::string& directory, std::vector<std::string>& faults);

// INVALID_PARAMS for words that would be cut where they are used; PAYLOAD_TOO_LARGE for what could not be written down
// so that it can be read again, and shown in one answer.
Status check_config(const Config& config);

// The members of a container's description, without its logs: for the record and for answers.
void describe(wire::JsonWriter& json, const Container& container);

}  // namespace sallyport::containers

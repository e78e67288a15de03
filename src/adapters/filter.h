// Filters on metadata: {"field": {"eq": value, "lt": value, ...}, ...}; all of it must hold.
#pragma once

#include "base/base.h"
#include "wire/json.h"

namespace sallyport::adapters {

// INVALID_PARAMS unless it is a filter, of at most kMaxFilterValues: operators are eq ne in nin lt gt.
Status check_filter(wire::Value filter);
// An absent field equals nothing: only `ne` and `nin` hold for it. Numbers and texts have an order, each among
// themselves.
bool matches(wire::Value filter, wire::Value metadata);

}  // namespace sallyport::adapters

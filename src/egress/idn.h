// Host names as clients write them, in any language, to the one form that rules are compared with.
#pragma once

#include <string_view>

#include "policy/host.h"

namespace sallyport::egress {

// As policy::parse_host, after IDNA 2008 (UTS 46, non-transitional) for what is not ASCII: full-width digits, other
// dots and capital letters become what they mean. INVALID_PARAMS for what means nothing.
Result<policy::Host> canonical_host(std::string_view text);

}  // namespace sallyport::egress

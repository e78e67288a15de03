// A look at JSON text that somebody else wrote and that is spliced into a message.
#pragma once

#include <string_view>

namespace sallyport::wire {

// Whether the text is one object and nothing behind it, as far as brackets and strings tell: what it holds is for the
// reader to judge, but it cannot end early and go on as something else.
bool is_one_object(std::string_view text);

}  // namespace sallyport::wire

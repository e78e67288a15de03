// What a mount could not protect because it did not exist when the sandbox started: looked for when
// everything inside has ended.
#pragma once

#include <string>
#include <vector>

#include "sandbox/protect.h"

namespace sallyport::sandbox {

// Looks at what the host's git would use: repositories, also behind pointers, links and common
// directories, and the paths that configuration named at launch. What was pinned and is still in its
// place is left alone, and so are links that lead where they led. In the rest, hooks that are not samples and forged
// common directories are renamed to "<name>.quarantined", configuration keys off the allow-list are taken out (the
// original stays as config.quarantined). Settings that are new are only named, in `suspicious`. If the walk at launch
// was cut, nothing is changed and everything is only named: it may have been there before.
void scan_at_exit(const std::string& workspace, const Findings& at_launch, std::vector<std::string>& quarantined,
                  std::vector<std::string>& suspicious);

}  // namespace sallyport::sandbox

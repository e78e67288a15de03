// What a mount could not protect because it did not exist when the sandbox started: looked for when
// everything inside has ended.
#pragma once

#include <string>
#include <vector>

#include "sandbox/protect.h"

namespace sallyport::sandbox {

struct ScanReport {
  std::vector<std::string> quarantined;  // paths that were set aside
  std::vector<std::string> suspicious;   // paths that are left in place
  std::vector<std::string> notes;        // sentences: what could not be looked at

  std::vector<std::string> sentences() const;  // all of it
};

// Looks at what the host's git would use: repositories, also bare ones, those below node_modules, and those behind
// pointers, links and common directories, and the paths that configuration named at launch. What was pinned and is
// still in its place is left alone, and so are links that lead where they led. In the rest, hooks that are not samples,
// forged common directories, links in git directories, pointers to where git itself puts none and state that git would
// not have written (git_state.h) are renamed to "<name>.quarantined", configuration keys off the allow-list are taken
// out (the original stays as config.quarantined). Settings that are new are only named, and so is what is left to do of
// a rebase, if a command is in it.
//
// Where not everything that was there at launch is known, what did not change since is left alone, and what did not
// change itself but may have been moved is only named. A directory that its mode closes is opened to its owner.
//
// Other sandboxes may change the workspace meanwhile: nothing is ever reached through a link, and nothing outside the
// workspace is touched.
ScanReport scan_at_exit(const Findings& at_launch);

}  // namespace sallyport::sandbox

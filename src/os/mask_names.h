// What a sandbox mounts over files and directories that it hides, by its own names for them: who lives inside can tell
// by their identity what is hidden.
#pragma once

namespace sallyport::os {

constexpr const char* kMaskFile = "/run/.masked-file";
constexpr const char* kMaskDirectory = "/run/.masked-directory";

}  // namespace sallyport::os

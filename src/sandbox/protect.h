// What must not be written, or not be seen, inside a workspace that is otherwise writable.
//
// The names are data (protected_names.h). A mount can only cover what exists: what appears later is
// found by the scan at exit (exit_scan.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace sallyport::sandbox {

struct Findings {
  std::vector<std::string> pin_writable;  // mount points that stay writable, such as .git itself
  std::vector<std::string> pins;          // read-only
  std::vector<std::string> masks;         // files that read as empty
  std::vector<std::string> mask_directories;
  std::vector<std::string> tracked_secrets;  // in git's objects anyway: reported, not masked
  std::vector<std::string> repositories;     // git directories found, the top one first
  std::string placeholder;                   // a commondir that we made and must remove; or empty
  bool was_cut = false;                      // the walk hit its bound: there may be more
  std::uint64_t entries_seen = 0;
};

struct WalkBounds {
  std::chrono::milliseconds time{200};
  std::uint64_t entries = 200'000;
};

// Looks through the workspace without following links. May make the `.git/commondir` placeholder
// when is_writable; everything else only reads.
Findings find_protected(const std::string& workspace, bool is_writable, const std::vector<std::string>& deny_names,
                        const WalkBounds& bounds);

// Removes a placeholder that find_protected made; leaves anything else alone.
void remove_placeholder(const std::string& path);

}  // namespace sallyport::sandbox

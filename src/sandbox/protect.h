// What must not be written, or not be seen, inside a workspace that is otherwise writable.
//
// The names are data (protected_names.h). A mount can only cover what exists: what appears later is
// found by the scan at exit (exit_scan.h).
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sandbox/git_config.h"

namespace sallyport::sandbox {

// A path that git's configuration names. What it leads to can be pinned; the way there, and what does
// not exist yet, can only be looked at again at exit.
struct Configured {
  enum class Kind : std::uint8_t { hooks, hook, config } kind;
  std::string path;
  std::string resolved;  // at launch; empty: it did not exist
};

// A link where git expects a file or directory of its own. No mount can hold a link.
struct Link {
  std::string text;
  std::string resolved;  // empty: it dangled
};

using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device and inode
FileId file_id(const std::string& path);                 // zeros: not there

// The kernel dates changes itself: what runs inside cannot choose this time. In nanoseconds.
std::int64_t changed_at(const struct stat& info);

// A pinned file that may be written all the same, because it has another name (a hard link) on which there is no pin;
// or one that changed so shortly before the launch that its time alone would not tell.
struct DoubtfulPin {
  std::int64_t changed_at = 0;
  bool has_other_names = false;
};

struct Findings {
  std::string workspace;  // without links; empty: there was nothing to look for
  FileId workspace_id;
  bool needs_scan = false;    // at exit: it is writable, and protected
  std::int64_t taken_at = 0;  // nanoseconds, on the clock by which the kernel dates changes of files
  // Not all that was there is listed, or not all of it was covered: what did not change since is not new either.
  bool is_partial = false;
  std::vector<std::string> pin_writable;             // mount points that stay writable, such as .git itself
  std::vector<std::string> pins;                     // read-only
  std::map<std::string, DoubtfulPin> doubtful_pins;  // by file, also those in directories that are pinned
  std::vector<std::string> masks;                    // files that read as empty
  std::vector<std::string> mask_directories;
  std::vector<std::string> tracked_secrets;  // in git's objects anyway: reported, not masked
  // Tracked with another content than they have: masked so that git cannot take the mask for the file.
  std::vector<std::string> changed_secrets;
  std::vector<std::string> unread_indexes;  // of repositories where everything that looks like a secret is masked
  std::vector<std::string> repositories;    // git directories found, the top one first
  // Paths that were to be shown, and where the link leads that an earlier sandbox may have made there.
  std::vector<std::pair<std::string, std::string>> left_out;
  std::vector<Configured> configured;
  // Values of core.hooksPath that depend on the work tree, by git directory; those of the user's own configuration
  // under no name.
  std::map<std::string, std::vector<std::string>> relative_hooks;
  std::map<std::string, Link> links;
  // Of the directories that hold a pin. A pin cannot be moved, but a directory above it can; where it
  // was, a forged one may stand at exit.
  std::map<std::string, FileId> parents;
  // By file: the settings in repositories' configuration that may run something and are the user's own.
  std::map<std::string, OwnSettings> own_settings;
  std::string placeholder;   // a commondir that we made and must remove; or empty
  bool was_cut = false;      // the walk hit its bound: there may be more
  bool has_more = false;     // repositories, or configuration, beyond what is protected
  bool has_changed = false;  // the workspace did not hold still: things may have been missed
  std::uint64_t entries_seen = 0;
};

// Whether a file or directory of this name makes a host program run code (kSettings).
bool is_setting(const char* name);
bool is_setting_path(std::string_view path);  // kSettingPaths
bool is_project_setting(const char* name);    // kProjectSettings
// Whether files in it are not looked at one by one (kSkippedDirectories).
bool is_skipped(std::string_view name);

// For a sandbox that can cover nothing: only what the scan at exit needs is left.
void drop_covers(Findings& findings);

struct WalkBounds {
  std::chrono::milliseconds time{200};
  std::uint64_t entries = 200'000;
  std::uint64_t path_bytes = 64U << 20;  // of all that are seen: whoever looks at them may keep them
};

// Looks through the workspace without following links. May make the `.git/commondir` placeholder
// when is_writable; everything else only reads. `home` is where git finds the user's own configuration.
// `deny_patterns` as Spec has them.
Findings find_protected(const std::string& workspace, const std::string& home, bool is_writable,
                        const std::vector<std::string>& deny_patterns, const WalkBounds& bounds);

// What is to be said of secrets that git tracks and of pins that do not hold, as sentences.
std::vector<std::string> remarks(const Findings& findings);

inline constexpr std::string_view kPlaceholderText = ".";  // "the common directory is this one": no change

// Removes a placeholder that find_protected made; leaves anything else alone.
void remove_placeholder(const std::string& path);

}  // namespace sallyport::sandbox

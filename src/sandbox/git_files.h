// Just enough of git's file formats, read without running git: a hostile repository makes git run
// programs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "sandbox/held_directory.h"

namespace sallyport::sandbox {

// A regular file, no link, of at most `most` bytes: an index may have 16 MiB.
std::optional<std::string> read_small_file(const std::string& path, std::size_t most = 16U << 20);
// The same for a name in a directory that is held open.
std::optional<std::string> read_small_file_at(int directory, const char* name, std::size_t most = 16U << 20);

std::string parent_of(const std::string& path);

// Of a directory with a HEAD in it. Git asks no more than that the names are there: they may be links.
bool is_bare_repository(int directory);

// Of what lies `below` a git directory. Whether git goes on from there, or writes there, by names of its own: a bare
// repository may also have work trees in it.
bool is_for_git(const std::string& git, const std::string& below, std::string_view name);
// A link as git makes them with core.preferSymlinkRefs. It leads down, to what is looked at as it is.
bool is_symbolic_ref(const std::string& below, const std::string& text);

// What the text of a ".git" file or a "commondir" file leads to, links and all, from the directory it is in.
std::optional<std::string> pointer_target(std::string_view text, const std::string& base);
std::string commondir_target(std::string_view text, const std::string& git);
// The same of such a file; nothing if it is neither.
std::optional<std::string> gitdir_target(const std::string& file);
std::optional<std::string> commondir_target(const std::string& git);

// The configuration that git would use in a git directory of this workspace.
std::string config_of(const HeldDirectory& git, const HeldDirectory& workspace);
// Whether the git directory of a worktree names one out of the workspace: "git worktree repair" writes to it.
bool is_led_out(const HeldDirectory& git, const HeldDirectory& workspace);
// Whether a file that is listed in MERGE_RR is a link: the next commit copies the listed ones into the git directory,
// also by a list of the user's own, and follows links.
bool lists_a_link(const HeldDirectory& git);

}  // namespace sallyport::sandbox

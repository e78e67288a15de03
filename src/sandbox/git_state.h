// Files in a git directory that git writes for itself and then believes: with others in their place it runs a program,
// or reads and writes outside of the work tree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sallyport::sandbox {

enum class GitState : std::uint8_t {
  harmless,
  may_run,     // something of what is left to do, when git goes on with it: it may be what the user wants
  leads_away,  // nothing that git itself would have written
};

// Those with a name of their own.
inline constexpr std::array<const char*, 6> kGitStates = {"index",
                                                          "MERGE_RR",
                                                          "rebase-merge/git-rebase-todo",
                                                          "rebase-merge/strategy",
                                                          "sequencer/opts",
                                                          "rebase-apply/apply-opt"};

// Whether `below`, a file's path in its git directory or in one that holds several, is one of them. Larger ones than
// kMaxGitStateBytes are as bad as the worst.
bool is_git_state(std::string_view below);
inline constexpr std::size_t kMaxGitStateBytes = 128U << 20;  // an index of a million files

// `name_bytes`: as the repository's hash has them.
GitState judge_git_state(std::string_view below, std::string_view content, std::size_t name_bytes);

// Whether git would run a command of this list (git-rebase-todo) when the rebase goes on.
bool has_command(std::string_view todo);

}  // namespace sallyport::sandbox

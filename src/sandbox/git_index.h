// Which files git tracks, and with which content. Internal to the module.
//
// An index can be written inside a sandbox: that it names a file proves nothing. What it cannot have without knowing
// the content is the content's hash.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace sallyport::sandbox {

struct GitIndex {
  std::map<std::string, std::string> names;  // path to the name of the blob, in bytes; the first of each path
  std::string base;                          // of a split index: the name of the one it builds on, in bytes
};

// Versions 2 to 4; nothing if it cannot be understood. `name_bytes`: as the repository's hash has them.
std::optional<GitIndex> parse_index(std::string_view index, std::size_t name_bytes);

// Whether git would take a path for one of its work tree. It checks that when it adds one to an index, and not when it
// reads an index: it checks out, removes and adds whatever path stands there.
bool stays_in_tree(std::string_view path);
// Whether that is so of all paths of an index, in every way that git may read it. False if it cannot be understood.
bool is_harmless_index(std::string_view index, std::size_t name_bytes);
// The file beside it that a split index builds on; empty: none, or it cannot be understood.
std::string base_of_index(std::string_view index, std::size_t name_bytes);
inline constexpr std::string_view kIndexSignature = "DIRC";

// How long the names of objects are in a repository with this configuration. Git uses none that is not understood.
std::size_t name_bytes_in(std::string_view config);

enum class Tracking : std::uint8_t {
  untracked,
  same,        // tracked, and its content is what git has
  changed,     // tracked with another content
  unreadable,  // there is an index that cannot be read
};

// For files of one workspace, by the repository that each lies in. A repository outside of the workspace cannot be used
// inside, and tracks nothing.
class TrackedFiles {
 public:
  explicit TrackedFiles(const std::string& workspace);
  ~TrackedFiles();
  TrackedFiles(const TrackedFiles&) = delete;
  TrackedFiles& operator=(const TrackedFiles&) = delete;

  Tracking look_up(const std::string& path);
  const std::set<std::string>& unreadable() const { return unreadable_; }  // the git directories

 private:
  struct Repository;
  std::shared_ptr<Repository> repository_of(const std::string& directory);
  std::shared_ptr<Repository> open(const std::string& directory);
  bool read_index(const std::string& git, Repository& repository) const;

  const std::string& workspace_;
  std::map<std::string, std::shared_ptr<Repository>> by_directory_;  // null: in none
  std::set<std::string> unreadable_;
  std::size_t bytes_left_;
};

}  // namespace sallyport::sandbox

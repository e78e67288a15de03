// Finds what git on the host would run or read as configuration, in the repositories of a workspace.
// Internal to the module.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sandbox/protect.h"

namespace sallyport::sandbox {

class RepositoryFinder {
 public:
  // The user's own configuration applies to every repository: it is read from `home`.
  RepositoryFinder(const std::string& workspace, const std::string& home, Findings& found);

  // The workspace's own; may make the placeholder.
  void add_top();
  // A ".git" of any kind: a directory, a file that points to one, a link.
  void add(const std::string& git, const std::string& tree);
  // A directory with a HEAD: git takes it for a repository if the rest is there too.
  void add_bare(const std::string& directory);
  // Also what a link leads to, if that is inside; the link itself can only be remembered.
  void pin(const std::string& path);
  // Once all pins are found. Links in them lead to more.
  void look_into_pins();
  // Some were left out, because there are too many.
  bool has_more() const { return has_more_; }

 private:
  std::string directory_behind(const std::string& git);
  void use(const std::string& git, const std::string& tree);
  void add_directory(const std::string& git);
  void remember_settings(const std::string& file, std::string_view config);
  void add_modules(const std::string& directory, int depth);
  std::string remember_link(const std::string& path);
  void note_doubts(const std::string& path);
  void add_configured(Configured::Kind kind, const std::string& path);
  void add_hooks(const std::vector<std::string>& values, const std::string& tree);
  void remember_relative(const std::string& git, const std::vector<std::string>& values);
  void read_config(const std::string& file, std::vector<std::string>& hooks, std::set<std::string>& read, int depth);
  std::vector<std::string> read_configs(const std::vector<std::string>& files);
  std::string expanded(const std::string& value, const std::string& base) const;
  std::vector<std::string> children(const std::string& directory);

  const std::string& workspace_;
  const std::string& home_;
  Findings& found_;
  std::vector<std::string> own_hooks_;                             // core.hooksPath of the user's own configuration
  std::map<std::string, std::vector<std::string>> hooks_of_;       // the same, by git directory
  std::set<std::pair<Configured::Kind, std::string>> configured_;  // each once
  bool has_more_ = false;
};

}  // namespace sallyport::sandbox

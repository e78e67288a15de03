// Just enough of git's file formats, read without running git: a hostile repository makes git run
// programs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sallyport::sandbox {

std::optional<std::string> read_small_file(const std::string& path);  // at most 16 MiB, no links

// As realpath(3); nothing if it leads nowhere.
std::optional<std::string> resolved(const std::string& path);
std::string parent_of(const std::string& path);
bool is_inside(const std::string& path, const std::string& directory);  // below it

// What a ".git" file or a "commondir" file leads to, links and all; nothing if it is neither.
std::optional<std::string> gitdir_target(const std::string& file);
std::optional<std::string> commondir_target(const std::string& git);

struct GitSetting {
  std::string key;  // "remote.*.url": lower case, a subsection shown as *
  std::string value;
  std::size_t line;  // where it starts, from 0
};
std::vector<GitSetting> git_settings(std::string_view config);

bool is_harmless(const GitSetting& setting);

// The configuration with every setting that is not harmless left out; nothing when all of them are.
std::optional<std::string> without_harmful(std::string_view config);

}  // namespace sallyport::sandbox

// git's configuration files, read as git itself reads them: character by character, because what we take for a
// comment or a continued line and git does not is a command that the host runs.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sallyport::sandbox {

// Nobody's own is larger; what is larger is set aside unread.
inline constexpr std::size_t kMaxGitConfigBytes = 256U << 10;

struct GitSetting {
  std::string key;  // "remote.*.url": lower case, a subsection shown as *
  std::string value;
  std::size_t begin = 0, end = 0;  // where it stands, without the newline behind it
};

struct GitConfig {
  std::vector<GitSetting> settings;  // up to where git would complain
  // False where git refuses the file, and where a zero byte would make git see another name than we do.
  bool is_understood = false;
};
GitConfig read_git_config(std::string_view text);  // in linear time

bool is_harmless(const GitSetting& setting);

// Each as "key=value": what is no news in this file.
using OwnSettings = std::set<std::string>;
OwnSettings harmful_settings(std::string_view text);

// The configuration without the settings that are neither harmless nor the user's own; nothing when there are none.
// Of one that is not understood nothing is left.
std::optional<std::string> without_harmful(std::string_view text, const OwnSettings& own = {});

}  // namespace sallyport::sandbox

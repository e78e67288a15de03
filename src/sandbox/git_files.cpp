#include "sandbox/git_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>

#include "base/unique_fd.h"
#include "sandbox/protected_names.h"

namespace sallyport::sandbox {
namespace {

constexpr std::size_t kMaxFileBytes = 16U << 20;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::string unquoted(std::string_view text) {
  std::string out;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      is_quoted = !is_quoted;
    } else if (text[i] == '\\' && i + 1 < text.size()) {
      out.push_back(text[++i]);
    } else if (!is_quoted && (text[i] == '#' || text[i] == ';')) {
      break;
    } else {
      out.push_back(text[i]);
    }
  }
  return std::string(trimmed(out));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

std::optional<std::string> read_small_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  if (static_cast<std::size_t>(info.st_size) > kMaxFileBytes) return std::nullopt;
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t used = 0;
  while (used < text.size()) {
    const ssize_t length = ::read(file.get(), text.data() + used, text.size() - used);
    if (length <= 0) break;
    used += static_cast<std::size_t>(length);
  }
  text.resize(used);
  return text;
}

std::optional<std::string> resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  if (!real) return std::nullopt;
  return std::string(real.get());
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool is_inside(const std::string& path, const std::string& directory) { return path.starts_with(directory + "/"); }

namespace {

// Git takes newlines off the end only: one in the middle belongs to the name.
std::string target_of(std::string_view text, const std::string& base) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return text.starts_with('/') ? std::string(text) : base + "/" + std::string(text);
}

}  // namespace

std::optional<std::string> gitdir_target(const std::string& file) {
  constexpr std::string_view kPrefix = "gitdir: ";
  const auto text = read_small_file(file);
  if (!text || !text->starts_with(kPrefix)) return std::nullopt;
  return target_of(std::string_view(*text).substr(kPrefix.size()), parent_of(file));
}

std::optional<std::string> commondir_target(const std::string& git) {
  const auto text = read_small_file(git + "/commondir");
  if (!text) return std::nullopt;
  return target_of(*text, git);
}

std::vector<GitSetting> git_settings(std::string_view config) {
  std::vector<GitSetting> settings;
  std::string section;
  const auto lines = lines_of(config);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = trimmed(lines[i]);
    const std::size_t first = i;
    if (line.starts_with('[')) {
      const std::size_t close = line.find(']');
      if (close == std::string_view::npos) continue;
      const std::string_view name = line.substr(1, close - 1);
      const std::size_t quote = name.find_first_of(" \t\"");
      const std::size_t dot = name.find('.');
      section = lower(name.substr(0, std::min(quote, dot)));
      if (quote != std::string_view::npos || dot != std::string_view::npos) section += ".*";
      line = trimmed(line.substr(close + 1));  // a setting may follow on the same line
    }
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    std::string whole(line);
    while (whole.ends_with('\\') && i + 1 < lines.size()) {
      whole.pop_back();
      whole += lines[++i];
    }
    const std::size_t equals = whole.find('=');
    const std::string key = lower(trimmed(std::string_view(whole).substr(0, equals)));
    settings.push_back(
        {section + "." + key,
         equals == std::string::npos ? "true" : unquoted(trimmed(std::string_view(whole).substr(equals + 1))), first});
  }
  return settings;
}

bool is_harmless(const GitSetting& setting) {
  if (std::find(kHarmlessGitKeys.begin(), kHarmlessGitKeys.end(), setting.key) == kHarmlessGitKeys.end()) return false;
  // A remote may name a program (ext::, or any other helper) or look like an option.
  const bool is_url = setting.key.ends_with(".url");
  return !is_url || (setting.value.find("::") == std::string::npos && !setting.value.starts_with('-'));
}

std::optional<std::string> without_harmful(std::string_view config) {
  std::set<std::size_t> harmful;
  const auto settings = git_settings(config);
  for (const GitSetting& setting : settings) {
    if (!is_harmless(setting)) harmful.insert(setting.line);
  }
  if (harmful.empty()) return std::nullopt;
  const auto lines = lines_of(config);
  std::string kept;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!harmful.contains(i)) {
      kept.append(lines[i]).push_back('\n');
      continue;
    }
    // A section header on the same line stays, continued lines go.
    const std::string_view line = trimmed(lines[i]);
    if (line.starts_with('[')) kept.append(line.substr(0, line.find(']') + 1)).push_back('\n');
    while (lines[i].ends_with('\\') && i + 1 < lines.size()) ++i;
  }
  return kept;
}

}  // namespace sallyport::sandbox

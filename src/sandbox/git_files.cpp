#include "sandbox/git_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/unique_fd.h"
#include "os/paths.h"
#include "sandbox/git_config.h"
#include "sandbox/protected_names.h"

namespace sallyport::sandbox {

std::optional<std::string> read_small_file_at(int directory, const char* name, std::size_t most) {
  UniqueFd file(::openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  if (static_cast<std::size_t>(info.st_size) > most) return std::nullopt;
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

std::optional<std::string> read_small_file(const std::string& path, std::size_t most) {
  return read_small_file_at(AT_FDCWD, path.c_str(), most);
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool is_bare_repository(int directory) {
  const auto has = [&](const char* name) {
    struct stat info{};
    return ::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
  };
  return (has("objects") && has("refs")) || has("commondir");
}

bool is_for_git(const std::string& git, const std::string& below, std::string_view name) {
  if (below.find('/') == std::string::npos) return git.ends_with("/.git") || is_one_of(kGitDirectories, name);
  // Objects are many, and named by what is in them.
  constexpr std::size_t kLooseName = 2;
  return parent_of(below) != "objects" || name.size() != kLooseName;
}

bool is_symbolic_ref(const std::string& below, const std::string& text) {
  const bool is_ref = below == "HEAD" || below.ends_with("/HEAD") || ("/" + below).find("/refs/") != std::string::npos;
  return is_ref && text.starts_with("refs/") && text.find("/.") == std::string::npos;
}

namespace {

// Git takes newlines off the end only: one in the middle belongs to the name.
std::string target_of(std::string_view text, const std::string& base) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return text.starts_with('/') ? std::string(text) : base + "/" + std::string(text);
}

}  // namespace

std::optional<std::string> pointer_target(std::string_view text, const std::string& base) {
  constexpr std::string_view kPrefix = "gitdir: ";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  return target_of(text.substr(kPrefix.size()), base);
}

std::string commondir_target(std::string_view text, const std::string& git) { return target_of(text, git); }

std::optional<std::string> gitdir_target(const std::string& file) {
  const auto text = read_small_file(file);
  return text ? pointer_target(*text, parent_of(file)) : std::nullopt;
}

std::optional<std::string> commondir_target(const std::string& git) {
  const auto text = read_small_file(git + "/commondir");
  if (!text) return std::nullopt;
  return target_of(*text, git);
}

std::string config_of(const HeldDirectory& git, const HeldDirectory& workspace) {
  const auto text = read_small_file_at(git.fd(), "commondir");
  const auto common = text ? os::real_path(commondir_target(*text, git.path())) : std::nullopt;
  const bool is_inside = common && os::is_within(*common, workspace.path());
  const auto holder = is_inside ? workspace.open_inside(*common) : std::nullopt;
  return read_small_file_at(holder ? holder->fd() : git.fd(), "config", kMaxGitConfigBytes).value_or("");
}

bool is_led_out(const HeldDirectory& git, const HeldDirectory& workspace) {
  const auto text = read_small_file_at(git.fd(), "gitdir");
  const std::string tree = text ? parent_of(commondir_target(*text, git.path())) : "";
  const std::string straight = std::filesystem::path(tree).lexically_normal();
  const bool is_straight = os::real_path(tree).value_or(straight) == straight;
  return !is_straight || !os::is_within(straight, workspace.path());
}

bool lists_a_link(const HeldDirectory& git) {
  constexpr std::size_t kMaxListBytes = 1U << 20;
  const auto list = read_small_file_at(git.fd(), "MERGE_RR", kMaxListBytes);
  const auto tree = HeldDirectory::open(parent_of(git.path()));
  if (!list || !tree || !git.path().ends_with("/.git")) return false;
  for (std::size_t at = 0; at < list->size();) {
    const std::size_t end = std::min(list->find('\0', at), list->size());
    const std::string_view entry = std::string_view(*list).substr(at, end - at);
    const std::string path = tree->path_of(std::string(entry.substr(entry.find('\t') + 1)));
    const auto holder = tree->open_inside(parent_of(path));
    const auto info = holder ? holder->look_at(path.substr(path.rfind('/') + 1)) : std::nullopt;
    if (info ? !S_ISREG(info->st_mode) : os::real_path(path).has_value()) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace sallyport::sandbox

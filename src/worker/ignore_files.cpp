#include "worker/ignore_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "os/beneath.h"
#include "worker/limits.h"

namespace sallyport::worker {
namespace {

// The first line of a file that names a directory, behind `mark`; empty if it is none.
std::string read_pointer(int directory, const char* path, std::string_view mark) {
  const std::string text = read_rules(directory, path).text;
  std::string_view line = std::string_view(text).substr(0, text.find_first_of("\r\n"));
  if (!line.starts_with(mark)) return {};
  return std::string(line.substr(mark.size()));
}

std::string join(std::string_view base, const std::string& path) {
  return path.starts_with('/') ? path : std::string(base) + "/" + path;
}

}  // namespace

RulesText read_rules(int directory, const char* path) {
  const UniqueFd file = os::open_beneath(directory, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, os::Links::refused);
  if (!file) return {};
  RulesText rules{std::string(4096, '\0'), false};
  std::string& text = rules.text;
  std::size_t filled = 0;
  while (filled <= kMaxIgnoreFileBytes) {
    const ssize_t count = ::read(file.get(), text.data() + filled, text.size() - filled);
    if (count <= 0) break;
    filled += static_cast<std::size_t>(count);
    if (filled == text.size()) text.resize(text.size() * 4);
  }
  rules.is_cut = filled > kMaxIgnoreFileBytes;
  text.resize(filled);
  if (rules.is_cut) text.resize(text.rfind('\n', kMaxIgnoreFileBytes - 1) + 1);
  return rules;
}

RulesText read_exclude(const Roots& roots, int directory, std::string_view path) {
  const std::string pointer = read_pointer(directory, ".git", "gitdir: ");
  if (pointer.empty()) return read_rules(directory, ".git/info/exclude");
  std::string repository = join(path, pointer);
  const auto own = roots.open_directory(repository);
  if (!own) return {};
  const std::string common = read_pointer(own->get(), "commondir", "");
  if (common.empty()) return read_rules(own->get(), "info/exclude");
  const auto shared = roots.open_directory(join(repository, common));
  return shared ? read_rules(shared->get(), "info/exclude") : RulesText();
}

}  // namespace sallyport::worker

#include "sandbox/git_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/unique_fd.h"

namespace sallyport::sandbox {
namespace {

constexpr std::size_t kEntryHead = 62;  // times, ids, size, SHA-1, flags
constexpr std::uint16_t kHasMoreFlags = 0x4000;

std::uint32_t big_endian(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

}  // namespace

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

std::optional<std::set<std::string>> tracked_paths(std::string_view index) {
  if (index.size() < 12 || !index.starts_with("DIRC")) return std::nullopt;
  const std::uint32_t version = big_endian(index, 4, 4);
  const std::uint32_t count = big_endian(index, 8, 4);
  if (version < 2 || version > 4) return std::nullopt;
  std::set<std::string> paths;
  std::string previous;
  std::size_t at = 12;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (at + kEntryHead >= index.size()) return std::nullopt;
    std::size_t name = at + kEntryHead;
    if (version >= 3 && (big_endian(index, at + 60, 2) & kHasMoreFlags) != 0) name += 2;
    if (version == 4) {
      // How many bytes of the previous path to drop, as git's offset encoding.
      std::size_t drop = 0;
      for (bool is_first = true; name < index.size(); is_first = false) {
        const auto byte = static_cast<std::uint8_t>(index[name++]);
        drop = is_first ? byte & 0x7fU : ((drop + 1) << 7) | (byte & 0x7fU);
        if ((byte & 0x80) == 0) break;
      }
      if (drop > previous.size()) return std::nullopt;
      previous.resize(previous.size() - drop);
    } else {
      previous.clear();
    }
    const std::size_t end = index.find('\0', name);
    if (end == std::string_view::npos) return std::nullopt;
    previous.append(index.substr(name, end - name));
    paths.insert(previous);
    at = version == 4 ? end + 1 : at + ((end - at + 8) & ~std::size_t{7});
  }
  return paths;
}

}  // namespace sallyport::sandbox

#include "sandbox/git_index.h"

#include <strings.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "os/paths.h"
#include "sandbox/git_config.h"
#include "sandbox/git_files.h"
#include "sandbox/git_hash.h"

namespace sallyport::sandbox {
namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kStatBytes = 40;  // times, ids and size, before the blob's name
constexpr std::uint32_t kHasMoreFlags = 0x4000;
constexpr std::uint32_t kLengthMask = 0xfff;
// Hashed at one launch. Somebody waits, and an earlier sandbox may have made the files.
constexpr std::size_t kMaxHashedBytes = 16U << 20;

std::uint32_t big_endian(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

// How many bytes of the previous path version 4 drops, in git's offset encoding.
std::optional<std::size_t> dropped(std::string_view index, std::size_t& at) {
  std::size_t drop = 0;
  for (int bytes = 0; at < index.size() && bytes < 4; ++bytes) {
    const auto byte = static_cast<std::uint8_t>(index[at++]);
    drop = bytes == 0 ? byte & 0x7fU : ((drop + 1) << 7) | (byte & 0x7fU);
    if ((byte & 0x80) == 0) return drop;
  }
  return std::nullopt;
}

struct Start {
  std::size_t at = 0;
  std::size_t kept = 0;  // of the path before it
};
struct Entry {
  std::string_view path;
  std::string_view blob;
  Start start;
};

// Where the extensions begin, or nothing. What git would take for another path than we do is not understood.
template <typename Visit>
std::optional<std::size_t> for_each_entry(std::string_view index, std::size_t name_bytes, const Visit& visit) {
  if (index.size() < kHeader || !index.starts_with("DIRC")) return std::nullopt;
  const std::uint32_t version = big_endian(index, 4, 4);
  const std::uint32_t count = big_endian(index, 8, 4);
  if (version < 2 || version > 4) return std::nullopt;
  const std::size_t flags_at = kStatBytes + name_bytes;
  std::string path;
  std::size_t at = kHeader;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::size_t name = at + flags_at + 2;
    if (name >= index.size()) return std::nullopt;
    const std::uint32_t flags = big_endian(index, at + flags_at, 2);
    if (version >= 3 && (flags & kHasMoreFlags) != 0) name += 2;
    std::size_t kept = 0;
    if (version == 4) {
      const auto drop = dropped(index, name);
      if (!drop || *drop > path.size()) return std::nullopt;
      kept = path.size() - *drop;
    }
    const std::size_t end = index.find('\0', name);
    if (end == std::string_view::npos) return std::nullopt;
    path.resize(kept);
    path.append(index.substr(name, end - name));
    // Git goes by this length, unless it is the largest.
    if ((flags & kLengthMask) != kLengthMask && (flags & kLengthMask) != path.size()) return std::nullopt;
    visit(Entry{path, index.substr(at + kStatBytes, name_bytes), {at, kept}});
    at = version == 4 ? end + 1 : at + ((end - at + 8) & ~std::size_t{7});
  }
  return at;
}

// With many entries git reads them from where these say that they are, by several threads.
bool is_offset_table_true(std::string_view table, const std::vector<Start>& starts) {
  if (table.size() < 4 || table.size() % 8 != 4 || big_endian(table, 0, 4) != 1) return false;
  std::size_t next = 0;
  for (std::size_t at = 4; at < table.size(); at += 8) {
    if (next >= starts.size()) return false;
    const Start& start = starts[next];
    if (start.at != big_endian(table, at, 4) || start.kept != 0) return false;
    next += big_endian(table, at + 4, 4);
  }
  return next == starts.size();
}

bool are_extensions_true(std::string_view index, std::size_t begin, std::size_t name_bytes,
                         const std::vector<Start>& starts) {
  if (index.size() < begin + name_bytes) return false;
  const std::size_t end = index.size() - name_bytes;
  // Git looks for this one at its place, whatever it is a part of.
  const std::size_t marker_bytes = 8 + 4 + name_bytes;
  if (end >= begin + marker_bytes && index.substr(end - marker_bytes, 4) == "EOIE" &&
      big_endian(index, end - marker_bytes + 8, 4) != begin) {
    return false;
  }
  std::size_t at = begin;
  while (at + 8 <= end) {
    const std::size_t length = big_endian(index, at + 4, 4);
    if (length > end - at - 8) return false;
    if (index.substr(at, 4) == "IEOT" && !is_offset_table_true(index.substr(at + 8, length), starts)) return false;
    at += 8 + length;
  }
  return at == end;
}

// Behind the entries: four letters, a length, that many bytes; then the index's own hash.
std::string base_name(std::string_view index, std::size_t at, std::size_t name_bytes) {
  while (at + 8 + name_bytes <= index.size()) {
    const std::size_t length = big_endian(index, at + 4, 4);
    if (index.substr(at, 4) == "link" && length >= name_bytes) return std::string(index.substr(at + 8, name_bytes));
    at += 8 + length;
  }
  return {};
}

std::string hex(std::string_view bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text.push_back(kDigits[static_cast<std::uint8_t>(byte) >> 4]);
    text.push_back(kDigits[static_cast<std::uint8_t>(byte) & 0xf]);
  }
  return text;
}

bool exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace

std::size_t name_bytes_of(const std::string& common) {
  std::size_t bytes = kSha1Bytes;
  // The last one counts.
  for (const GitSetting& setting : read_git_config(read_small_file(common + "/config").value_or("")).settings) {
    if (setting.key == "extensions.objectformat") bytes = setting.value == "sha256" ? kSha256Bytes : kSha1Bytes;
  }
  return bytes;
}

std::optional<GitIndex> parse_index(std::string_view index, std::size_t name_bytes) {
  GitIndex found;
  const auto end = for_each_entry(index, name_bytes, [&](const Entry& entry) {
    // Without a path it replaces an entry of the base of a split index: that one's content has changed.
    if (!entry.path.empty()) found.names.try_emplace(std::string(entry.path), entry.blob);
  });
  if (!end) return std::nullopt;
  found.base = base_name(index, *end, name_bytes);
  return found;
}

bool stays_in_tree(std::string_view path) {
  if (path.ends_with('/')) path.remove_suffix(1);  // a directory, in a sparse index
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    const bool is_git = part.size() == 4 && ::strncasecmp(part.data(), ".git", 4) == 0;
    if (part.empty() || part == "." || part == ".." || is_git) return false;
    at = end + 1;
  }
  return true;
}

bool is_harmless_index(std::string_view index, std::size_t name_bytes) {
  bool is_inside = true;
  std::vector<Start> starts;
  const auto end = for_each_entry(index, name_bytes, [&](const Entry& entry) {
    is_inside = is_inside && (entry.path.empty() || stays_in_tree(entry.path));
    starts.push_back(entry.start);
  });
  return end && is_inside && are_extensions_true(index, *end, name_bytes, starts);
}

struct TrackedFiles::Repository {
  std::string tree;  // where its paths start
  std::size_t name_bytes = kSha1Bytes;
  bool is_readable = true;
  std::map<std::string, std::string> names;
};

TrackedFiles::TrackedFiles(const std::string& workspace) : workspace_(workspace), bytes_left_(kMaxHashedBytes) {}
TrackedFiles::~TrackedFiles() = default;

Tracking TrackedFiles::look_up(const std::string& path) {
  const auto repository = repository_of(parent_of(path));
  if (!repository) return Tracking::untracked;
  if (!repository->is_readable) return Tracking::unreadable;
  const auto entry = repository->names.find(path.substr(repository->tree.size() + 1));
  if (entry == repository->names.end()) return Tracking::untracked;
  struct stat info{};
  const bool is_known = ::lstat(path.c_str(), &info) == 0 && static_cast<std::size_t>(info.st_size) <= bytes_left_;
  const auto content = is_known ? read_small_file(path) : std::nullopt;
  if (!content) return Tracking::changed;
  bytes_left_ -= std::min(bytes_left_, content->size());
  return blob_name(*content, repository->name_bytes) == entry->second ? Tracking::same : Tracking::changed;
}

// The nearest one at or above the directory.
std::shared_ptr<TrackedFiles::Repository> TrackedFiles::repository_of(const std::string& directory) {
  if (const auto known = by_directory_.find(directory); known != by_directory_.end()) return known->second;
  std::shared_ptr<Repository> found;
  if (exists(directory + "/.git")) {
    found = open(directory);
  } else if (directory != workspace_) {
    found = repository_of(parent_of(directory));
  }
  return by_directory_[directory] = found;
}

std::shared_ptr<TrackedFiles::Repository> TrackedFiles::open(const std::string& directory) {
  auto git = os::real_path(directory + "/.git");
  if (const auto target = git ? gitdir_target(*git) : std::nullopt) git = os::real_path(*target);
  if (!git || !os::is_below(*git, workspace_)) return nullptr;
  auto repository = std::make_shared<Repository>();
  repository->tree = directory;
  repository->is_readable = read_index(*git, *repository);
  if (!repository->is_readable) unreadable_.insert(*git);
  return repository;
}

bool TrackedFiles::read_index(const std::string& git, Repository& repository) const {
  if (!exists(git + "/index")) return true;  // nothing was ever added
  const auto target = commondir_target(git);
  const auto common = target ? os::real_path(*target) : std::nullopt;
  repository.name_bytes = name_bytes_of(common.value_or(git));
  const auto read = [&](const std::string& file) -> std::optional<GitIndex> {
    const auto bytes = read_small_file(git + "/" + file);
    return bytes ? parse_index(*bytes, repository.name_bytes) : std::nullopt;
  };
  auto own = read("index");
  if (!own) return false;
  repository.names = std::move(own->names);
  if (own->base.find_first_not_of('\0') == std::string::npos) return true;
  const auto base = read("sharedindex." + hex(own->base));
  if (!base) return false;
  repository.names.insert(base->names.begin(), base->names.end());
  return true;
}

}  // namespace sallyport::sandbox

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
constexpr std::uint32_t kLongName = 0xfff;  // its length, or that it is at least that
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
  if (index.size() < kHeader || !index.starts_with(kIndexSignature)) return std::nullopt;
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
    // Git reads them in version 2 as well, and writes none there.
    if ((flags & kHasMoreFlags) != 0 && version == 2) return std::nullopt;
    if ((flags & kHasMoreFlags) != 0) name += 2;
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
    // Git takes this length, where it is one, and not the end that we found.
    if ((flags & kLongName) != kLongName && (flags & kLongName) != path.size()) return std::nullopt;
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

// Behind the entries: four letters, a length, that many bytes; then the index's own hash. Whether they fill the place.
template <typename Visit>
bool for_each_extension(std::string_view index, std::size_t at, std::size_t name_bytes, const Visit& visit) {
  const std::size_t end = index.size() - std::min(index.size(), name_bytes);
  while (at + 8 <= end) {
    const std::size_t length = big_endian(index, at + 4, 4);
    if (length > end - at - 8) return false;
    visit(index.substr(at, 4), index.substr(at + 8, length));
    at += 8 + length;
  }
  return at == end;
}

// Where the extensions begin is also said at the end, for whoever reads them beside the entries. Git looks for it at
// its place, whatever it is a part of, which it takes for that of a SHA-1 also with other hashes.
bool is_end_of_entries(std::string_view index, std::size_t begin, std::size_t name_bytes) {
  for (const std::size_t hash_bytes : {kSha1Bytes, name_bytes}) {
    const std::size_t behind = 8 + 4 + hash_bytes + name_bytes;
    if (index.size() < behind) continue;
    const std::size_t at = index.size() - behind;
    if (index.substr(at, 4) == "EOIE" && big_endian(index, at + 8, 4) != begin) return false;
  }
  return true;
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

std::size_t name_bytes_in(std::string_view config) {
  const GitConfig known = read_git_config(config);
  std::size_t bytes = kSha1Bytes;
  // The last one counts.
  for (const GitSetting& setting : known.settings) {
    if (setting.key == "extensions.objectformat") bytes = setting.value == "sha256" ? kSha256Bytes : kSha1Bytes;
  }
  return known.is_understood ? bytes : kSha1Bytes;
}

std::optional<GitIndex> parse_index(std::string_view index, std::size_t name_bytes) {
  GitIndex found;
  const auto end = for_each_entry(index, name_bytes, [&](const Entry& entry) {
    // Without a path it replaces an entry of the base of a split index: that one's content has changed.
    if (!entry.path.empty()) found.names.try_emplace(std::string(entry.path), entry.blob);
  });
  if (!end) return std::nullopt;
  (void)for_each_extension(index, *end, name_bytes, [&](std::string_view kind, std::string_view data) {
    if (kind == "link" && data.size() >= name_bytes) found.base = data.substr(0, name_bytes);
  });
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
  bool is_fine = true;
  std::vector<Start> starts;
  const auto end = for_each_entry(index, name_bytes, [&](const Entry& entry) {
    // Without a path it stands for one of the base of a split index.
    is_fine = is_fine && (entry.path.empty() || stays_in_tree(entry.path));
    starts.push_back(entry.start);
  });
  if (!end || !is_end_of_entries(index, *end, name_bytes)) return false;
  const bool is_whole = for_each_extension(index, *end, name_bytes, [&](std::string_view kind, std::string_view data) {
    is_fine = is_fine && (kind != "IEOT" || is_offset_table_true(data, starts));
  });
  return is_whole && is_fine;
}

std::string base_of_index(std::string_view index, std::size_t name_bytes) {
  const auto end = for_each_entry(index, name_bytes, [](const Entry&) {});
  std::string name;
  (void)for_each_extension(index, end.value_or(index.size()), name_bytes,
                           [&](std::string_view kind, std::string_view data) {
                             if (kind != "link" || data.size() < name_bytes) return;
                             name = "sharedindex." + hex(data.substr(0, name_bytes));
                           });
  return name;
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
  repository.name_bytes = name_bytes_in(read_small_file(common.value_or(git) + "/config").value_or(""));
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

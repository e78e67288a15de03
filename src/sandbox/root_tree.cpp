#include "sandbox/root_tree.h"

#include <linux/mount.h>
#include <sys/stat.h>

#include <iterator>
#include <utility>

#include "os/paths.h"

namespace sallyport::sandbox {

bool is_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

namespace {

constexpr std::uint64_t kSafe = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

std::string relative(const std::string& path) { return path.substr(1); }

void make_one(const std::string& path, std::map<std::string, bool>& made, std::vector<Item>& out, unsigned mode) {
  if (made.insert({path, true}).second) out.push_back({Action::make_directory, {}, relative(path), 0, mode});
}

}  // namespace

void RootTree::scratch(const std::string& path, unsigned mode, std::uint64_t attributes) {
  entries_.insert({path, {Kind::scratch, {}, true, kSafe | attributes, mode}});
}

void RootTree::bind(const std::string& path, const std::string& source, bool is_writable, std::uint64_t attributes) {
  Entry entry{Kind::bind, source, is_writable, attributes | kSafe};
  if (!is_writable) entry.attributes |= MOUNT_ATTR_RDONLY;
  auto [place, is_new] = entries_.insert({path, entry});
  if (!is_new && (place->second.kind != Kind::bind || is_writable)) place->second = entry;
}

void RootTree::remove_beneath(const std::string& path) {
  std::erase_if(entries_, [&](const auto& item) { return os::is_within(item.first, path); });
}

void RootTree::drop_redundant() {
  for (auto at = entries_.begin(); at != entries_.end();) {
    std::string parent_path;
    const Entry* parent = above(at->first, &parent_path);
    const Entry& own = at->second;
    const bool same = parent != nullptr && own.kind == Kind::bind && parent->kind == Kind::bind &&
                      own.attributes == parent->attributes &&
                      own.source == parent->source + at->first.substr(parent_path == "/" ? 0 : parent_path.size());
    at = same ? entries_.erase(at) : std::next(at);
  }
}

const RootTree::Entry* RootTree::above(const std::string& path, std::string* at) const {
  const Entry* found = nullptr;
  for (const auto& [where, entry] : entries_) {
    if (os::is_below(path, where)) {
      found = &entry;
      if (at != nullptr) *at = where;
    }
  }
  return found;
}

bool RootTree::is_visible(const std::string& path) const {
  auto at = entries_.find(path);
  const Entry* entry = at == entries_.end() ? above(path) : &at->second;
  return entry != nullptr && entry->kind == Kind::bind;
}

std::vector<Item> RootTree::items() const {
  std::vector<Item> out;
  std::map<std::string, bool> made = {{"/dev", true}};  // directories of the new root
  for (const auto& [path, entry] : entries_) {
    const Entry* parent = above(path);
    const bool has_own_place = parent == nullptr || parent->kind != Kind::bind;
    if (has_own_place) make_parents(path, made, out);
    const std::string target = relative(path);
    switch (entry.kind) {
      case Kind::link:
        out.push_back({Action::make_link, entry.source, target});
        break;
      case Kind::scratch:
        if (has_own_place) make_one(path, made, out, entry.mode);
        out.push_back(
            {has_own_place ? Action::own_scratch : Action::new_scratch, {}, target, entry.attributes, entry.mode});
        break;
      case Kind::bind:
        if (has_own_place && is_directory(entry.source)) {
          make_one(path, made, out, 0755);
        } else if (has_own_place) {
          out.push_back({Action::make_file, {}, target});
        }
        out.push_back({Action::bind, entry.source, target, entry.attributes});
        break;
    }
  }
  return out;
}

void RootTree::make_parents(const std::string& path, std::map<std::string, bool>& made, std::vector<Item>& out) const {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    auto at = entries_.find(parent);
    if (at == entries_.end()) make_one(parent, made, out, 0755);
  }
}

}  // namespace sallyport::sandbox

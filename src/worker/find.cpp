#include "worker/find.h"

#include <algorithm>
#include <array>

#include "worker/cursor.h"
#include "worker/glob.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

// Keeps the smallest paths of one thread, so that memory is bounded by the page and not by the tree.
struct Smallest {
  std::vector<std::string> paths;
  std::string bound;           // nothing behind it is wanted any more; empty: no bound yet
  std::uint64_t total = 0;     // matches
  std::uint64_t behind = 0;    // of them, those behind the cursor
  std::uint64_t symlinks = 0;  // not followed

  void add(const std::string& path, std::size_t limit) {
    ++behind;
    if (!bound.empty() && path > bound) return;
    paths.push_back(path);
    if (paths.size() < 2 * limit + 64) return;
    std::nth_element(paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(limit), paths.end());
    bound = paths[limit];
    paths.resize(limit + 1);
  }
};

class Finder final : public WalkVisitor {
 public:
  Finder(const PathPattern& pattern, const GlobRequest& request, std::string_view cursor, const Stop& stop)
      : pattern_(pattern), request_(request), cursor_(cursor), stop_(stop), found_(walk_threads(request.walk)) {}

  void visit(unsigned worker, const WalkDirectory& directory, std::string_view name, EntryKind kind) override {
    const bool is_link = kind == EntryKind::symlink;
    if (!is_wanted(kind) && !is_link) return;
    std::string& path = scratch_[worker];
    path.assign(directory.path).append(name);
    const bool is_match = pattern_.matches(path, name, false, stop_);
    if (is_match && is_wanted(kind)) {
      ++found_[worker].total;
      if (cursor_.empty() || path > cursor_) found_[worker].add(path, request_.limit);
    } else if (is_link && (is_match || pattern_.can_match_below(path.append(1, '/')))) {
      ++found_[worker].symlinks;
    }
  }

  bool wants_directory(std::string_view path) override { return pattern_.can_match_below(path); }

  std::vector<Smallest>& found() { return found_; }

 private:
  bool is_wanted(EntryKind kind) const {
    switch (request_.kind) {
      case GlobRequest::Kind::file:
        return kind == EntryKind::file || kind == EntryKind::symlink;
      case GlobRequest::Kind::directory:
        return kind == EntryKind::directory;
      case GlobRequest::Kind::any:
        return true;
    }
    return false;
  }

  const PathPattern& pattern_;
  const GlobRequest& request_;
  std::string_view cursor_;
  const Stop& stop_;
  std::vector<Smallest> found_;
  std::array<std::string, kMaxWalkThreads> scratch_;
};

}  // namespace

std::string absolute_prefix(const Roots& roots, std::string_view root) {
  std::string path = roots.absolute(root);
  if (!path.ends_with('/')) path += '/';
  return path;
}

std::string display_prefix(std::string_view root) {
  while (root.starts_with("./")) root.remove_prefix(2);
  while (root.size() > 1 && root.ends_with('/')) root.remove_suffix(1);
  if (root.empty() || root == ".") return "";
  return root == "/" ? "/" : std::string(root) + "/";
}

Result<GlobAnswer> find_paths(const Roots& roots, const GlobRequest& request, const Stop& stop) {
  const std::string prefix = display_prefix(request.root);
  TRY(const PathPattern pattern,
      PathPattern::compile(request.pattern, PathPattern::Use::glob, absolute_prefix(roots, request.root)));
  std::string cursor;
  if (!request.cursor.empty()) {
    const auto path = read_cursor(CursorKind::glob, request.cursor);
    if (!path || !path->starts_with(prefix) || !is_walked_path(path->substr(prefix.size())))
      return Error::invalid_param("params.cursor", "is not from a glob of this root");
    cursor = path->substr(prefix.size());
  }

  Finder finder(pattern, request, cursor, stop);
  TRY(const Skipped skipped, walk(roots, request.root, request.walk, stop, finder));
  std::vector<std::string> all;
  GlobAnswer answer;
  answer.skipped = skipped;
  std::uint64_t behind = 0;
  for (Smallest& part : finder.found()) {
    answer.total += part.total;
    answer.skipped.symlinks += part.symlinks;
    behind += part.behind;
    std::move(part.paths.begin(), part.paths.end(), std::back_inserter(all));
  }
  std::sort(all.begin(), all.end());
  std::size_t room = request.max_bytes;
  for (std::string& path : all) {
    path.insert(0, prefix);
    const std::size_t cost = shown_size(path) + 3;
    if (answer.paths.size() == request.limit || (cost > room && !answer.paths.empty())) break;
    room -= std::min(cost, room);
    answer.paths.push_back(std::move(path));
  }
  if (answer.paths.size() < behind) answer.cursor = spell_cursor(CursorKind::glob, answer.paths.back());
  return answer;
}

}  // namespace sallyport::worker

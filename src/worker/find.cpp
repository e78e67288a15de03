#include "worker/find.h"

#include <algorithm>
#include <array>

#include "worker/glob.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

// Keeps the smallest paths of one thread, so that memory is bounded by the page and not by the tree.
struct Smallest {
  std::vector<std::string> paths;
  std::string bound;  // nothing behind it is wanted any more; empty: no bound yet
  std::uint64_t total = 0;

  void add(std::string_view directory, std::string_view name, std::size_t limit) {
    ++total;
    std::string path;
    path.reserve(directory.size() + name.size());
    path.append(directory).append(name);
    if (!bound.empty() && path > bound) return;
    paths.push_back(std::move(path));
    if (paths.size() < 2 * limit + 64) return;
    std::nth_element(paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(limit), paths.end());
    bound = paths[limit];
    paths.resize(limit + 1);
  }
};

class Finder final : public WalkVisitor {
 public:
  Finder(const PathPattern& pattern, const GlobRequest& request, std::string_view cursor)
      : pattern_(pattern), request_(request), cursor_(cursor), found_(walk_threads(request.walk)) {}

  void visit(unsigned worker, const WalkDirectory& directory, std::string_view name, EntryKind kind) override {
    const bool is_directory = kind == EntryKind::directory;
    if (request_.kind == GlobRequest::Kind::file && (is_directory || kind == EntryKind::special)) return;
    if (request_.kind == GlobRequest::Kind::directory && !is_directory) return;
    std::string& path = scratch_[worker];
    path.assign(directory.path).append(name);
    if (!pattern_.matches(path, name)) return;
    if (!cursor_.empty() && path <= cursor_) return;
    found_[worker].add(directory.path, name, request_.limit);
  }

  bool wants_directory(std::string_view path) override { return pattern_.can_match_below(path); }

  std::vector<Smallest>& found() { return found_; }

 private:
  const PathPattern& pattern_;
  const GlobRequest& request_;
  std::string_view cursor_;
  std::vector<Smallest> found_;
  std::array<std::string, kMaxWalkThreads> scratch_;
};

}  // namespace

std::string display_prefix(std::string_view root) {
  while (root.starts_with("./")) root.remove_prefix(2);
  while (root.size() > 1 && root.ends_with('/')) root.remove_suffix(1);
  if (root.empty() || root == ".") return "";
  return root == "/" ? "/" : std::string(root) + "/";
}

Result<GlobAnswer> find_paths(const Roots& roots, const GlobRequest& request, const Stop& stop) {
  const std::string prefix = display_prefix(request.root);
  std::string_view text = request.pattern;
  // An absolute pattern means the place it names, where that is below the root.
  const std::string whole_root = roots.absolute(request.root) == "/" ? "/" : roots.absolute(request.root) + "/";
  if (text.starts_with(whole_root)) text.remove_prefix(whole_root.size());
  TRY(const PathPattern pattern, PathPattern::compile(text, false));
  std::string_view cursor = request.cursor;
  if (!cursor.empty() && !cursor.starts_with(prefix))
    return Error::invalid_param("params.cursor", "is not from a search of this root");
  cursor.remove_prefix(std::min(prefix.size(), cursor.size()));

  Finder finder(pattern, request, cursor);
  TRY(const Skipped skipped, walk(roots, request.root, request.walk, stop, finder));
  std::vector<std::string> all;
  GlobAnswer answer;
  answer.skipped = skipped;
  for (Smallest& part : finder.found()) {
    answer.total += part.total;
    std::move(part.paths.begin(), part.paths.end(), std::back_inserter(all));
  }
  std::sort(all.begin(), all.end());
  std::size_t room = request.max_bytes;
  for (std::string& path : all) {
    path.insert(0, prefix);
    const std::size_t cost = escaped_size(path) + 3;
    if (answer.paths.size() == request.limit || (cost > room && !answer.paths.empty())) break;
    room -= std::min(cost, room);
    answer.paths.push_back(std::move(path));
  }
  answer.truncated = answer.paths.size() < answer.total;
  return answer;
}

}  // namespace sallyport::worker

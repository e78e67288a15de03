#include "worker/grep.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>

#include "worker/cursor.h"
#include "worker/filter.h"
#include "worker/find.h"
#include "worker/masks.h"
#include "worker/pages.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

using Mode = SearchOptions::Mode;

// Strict: only what a page of a search of this root can have ended with. The path is then relative to the root, empty
// for the beginning.
Result<GrepCursor> parse_cursor(const GrepRequest& request, std::string_view prefix, bool is_directory) {
  if (request.cursor.empty()) return GrepCursor();
  auto cursor = read_grep_cursor(request.cursor);
  const bool is_ours = cursor && cursor->path.starts_with(prefix) &&
                       (is_directory ? is_walked_path(std::string_view(cursor->path).substr(prefix.size()))
                                     : cursor->path.size() == prefix.size()) &&
                       (cursor->line == 0 || request.search.mode == Mode::content);
  if (!is_ours) return Error::invalid_param("params.cursor", "is not from a search like this of this root");
  cursor->path.erase(0, prefix.size());
  return *std::move(cursor);
}

// The hits of all threads, kept to what one page can show. Once it is full, whatever lies behind its
// last path cannot be part of the answer and need not be searched.
class Collector {
 public:
  Collector(std::size_t limit, bool counts_files) : limit_(limit), counts_files_(counts_files) {}

  void add(std::string path, FileHits found) {
    const std::lock_guard lock(mutex_);
    const std::size_t weight = weigh(found);
    const std::size_t bytes = size_of(path, found);
    weight_ += weight;
    bytes_ += bytes;
    files_.emplace(std::move(path), std::move(found));
    while (!files_.empty()) {
      const auto last = std::prev(files_.end());
      const std::size_t last_weight = weigh(last->second);
      const std::size_t last_bytes = size_of(last->first, last->second);
      if (weight_ - last_weight < limit_ && bytes_ - last_bytes < kMaxHitBytes) break;
      weight_ -= last_weight;
      bytes_ -= last_bytes;
      is_cut_ = true;
      files_.erase(last);
    }
    if (!files_.empty() && (weight_ >= limit_ || bytes_ >= kMaxHitBytes)) {
      bound_ = files_.rbegin()->first;
      has_bound_.store(true, std::memory_order_release);
    }
  }

  // Takes out the files before `path`, or all of them. They still count against the limit.
  FoundFiles take(std::optional<std::string_view> before) {
    const std::lock_guard lock(mutex_);
    FoundFiles taken;
    while (!files_.empty() && (!before || files_.begin()->first < *before)) {
      bytes_ -= size_of(files_.begin()->first, files_.begin()->second);
      taken.insert(taken.end(), files_.extract(files_.begin()));
    }
    return taken;
  }

  // `path` of a file, or of a directory with its slash.
  bool is_behind_the_page(std::string_view path) {
    if (!has_bound_.load(std::memory_order_acquire)) return false;
    const std::lock_guard lock(mutex_);
    const bool is_behind = path > bound_;
    is_cut_ |= is_behind;
    return is_behind;
  }
  bool is_full() const { return has_bound_.load(std::memory_order_relaxed); }

  bool is_cut() const { return is_cut_; }

 private:
  std::size_t weigh(const FileHits& found) const { return counts_files_ ? 1 : found.matches; }
  static std::size_t size_of(const std::string& path, const FileHits& found) {
    return path.size() + kHitOverhead + found.bytes;
  }

  const std::size_t limit_;
  const bool counts_files_;
  std::mutex mutex_;
  FoundFiles files_;
  std::size_t weight_ = 0;
  std::size_t bytes_ = 0;
  std::string bound_;
  std::atomic<bool> has_bound_{false};
  bool is_cut_ = false;
};

class Grepper final : public WalkVisitor {
 public:
  Grepper(const Roots& roots, const Pattern& pattern, const Filter& filter, const SearchOptions& options,
          const GrepCursor& cursor, const Stop& stop, unsigned threads, Collector& collector, Pages& pages)
      : roots_(roots),
        masks_(roots),
        filter_(filter),
        cursor_(cursor),
        stop_(stop),
        collector_(collector),
        pages_(pages) {
    for (unsigned i = 0; i < threads; ++i) workers_.emplace_back(FileSearcher(pattern, options, stop));
  }

  void visit(unsigned worker, const WalkDirectory& directory, std::string_view name, EntryKind kind) override {
    Worker& self = workers_[worker];
    if (kind == EntryKind::symlink) ++self.skipped.symlinks;
    if (kind == EntryKind::special) ++self.skipped.special;
    if (kind != EntryKind::file) return;
    // Globs can take a hundred times what opening a file takes.
    if (++self.visited % (filter_.is_empty() ? 64 : 8) == 0 && stop_.is_over()) return;
    const bool needs_path = !filter_.is_empty() || !cursor_.path.empty() || collector_.is_full();
    if (needs_path) {
      self.path.assign(directory.path).append(name);
      if (!filter_.accepts(self.path, name, stop_)) return;
      if (is_before_the_cursor(self.path) || collector_.is_behind_the_page(self.path)) return;
    }
    // One component below a held directory, not followed: it cannot lead elsewhere.
    const UniqueFd file(
        ::openat(directory.fd.get(), name.data(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file || !is_allowed(file.get())) {
      ++self.skipped.unreadable;
      return;
    }
    const bool is_resumed = needs_path && self.path == cursor_.path;
    search(self, file.get(), is_resumed ? cursor_.line : 0, [&] { return directory.path + std::string(name); });
  }

  // The file that was named itself.
  void search_one(int file) {
    search(workers_[0], file, cursor_.line, [] { return std::string(); });
  }

  bool wants_directory(std::string_view path) override {
    const bool is_done = path < cursor_.path && !std::string_view(cursor_.path).starts_with(path);
    return !is_done && !filter_.excludes_directory(path, stop_) && !collector_.is_behind_the_page(path);
  }
  bool wants_order() override { return pages_.are_streamed() || collector_.is_full(); }
  bool wants_reached() override { return pages_.are_streamed(); }
  Status reached(std::string_view path) override {
    TRY(pages_.add(collector_.take(path)));
    return pages_.send();
  }

  void report(GrepAnswer& answer) const {
    for (const Worker& worker : workers_) {
      answer.skipped += worker.skipped;
      answer.searched += worker.searched;
    }
  }

 private:
  struct Worker {
    explicit Worker(FileSearcher from) : searcher(std::move(from)) {}
    FileSearcher searcher;
    std::string path;
    Skipped skipped;
    std::uint64_t searched = 0;
    std::uint64_t visited = 0;
  };

  template <typename Path>
  void search(Worker& self, int file, std::uint64_t after_line, Path path) {
    FileHits found;
    switch (self.searcher.search(file, after_line, found)) {
      case Outcome::searched:
        ++self.searched;
        self.skipped.long_lines += found.long_texts;
        break;
      case Outcome::empty:
        ++(masks_.is_mask(file) ? self.skipped.masked : self.searched);
        return;
      case Outcome::binary:
        ++self.skipped.binary;
        return;
      case Outcome::too_large:
        ++self.skipped.too_large;
        return;
      case Outcome::unreadable:
        ++self.skipped.unreadable;
        return;
      case Outcome::stopped:
        return;
    }
    if (found.matches > 0) collector_.add(path(), std::move(found));
  }

  // The listing tells a file's kind but not how many names it has.
  bool is_allowed(int file) const {
    if (!roots_.refuses_hard_links()) return true;
    struct stat status{};
    return ::fstat(file, &status) == 0 && roots_.check_regular(status).has_value();
  }

  bool is_before_the_cursor(std::string_view path) const {
    return path < cursor_.path || (path == cursor_.path && cursor_.line == 0);
  }

  const Roots& roots_;
  Masks masks_;
  const Filter& filter_;
  const GrepCursor& cursor_;
  const Stop& stop_;
  Collector& collector_;
  Pages& pages_;
  std::vector<Worker> workers_;
};

}  // namespace

Result<GrepAnswer> grep(const Roots& roots, const GrepRequest& request, const Stop& stop, const OnPage& on_page) {
  TRY(stop.check());
  TRY(const Pattern pattern, Pattern::compile(request.pattern, request.options));
  TRY(const Filter filter,
      Filter::make(request.include, request.exclude, request.types, absolute_prefix(roots, request.root)));
  SearchOptions options = request.search;
  // One more than the page holds tells that there is more.
  if (options.mode == Mode::content) options.most_lines = request.limit + 1;

  GrepAnswer answer;
  Collector collector(request.limit, options.mode != Mode::content);
  Pages pages(request, on_page);
  TRY(const UniqueFd target, roots.open_any(request.root, Follow::yes));
  struct stat status{};
  if (::fstat(target.get(), &status) != 0) return path_error("stat", errno);
  const bool is_directory = S_ISDIR(status.st_mode);
  const std::string prefix = is_directory ? display_prefix(request.root) : request.root;
  pages.set_prefix(prefix);
  TRY(const GrepCursor cursor, parse_cursor(request, prefix, is_directory));
  if (is_directory) {
    Grepper grepper(roots, pattern, filter, options, cursor, stop, walk_threads(request.walk), collector, pages);
    TRY(answer.skipped, walk(roots, request.root, request.walk, stop, grepper));
    grepper.report(answer);
  } else {
    TRY(const UniqueFd file, roots.open_file(request.root, O_RDONLY));
    options.with_binary = options.with_large = true;
    Grepper grepper(roots, pattern, filter, options, cursor, stop, 1, collector, pages);
    if (request.cursor.empty() || cursor.line != 0) grepper.search_one(file.get());
    TRY(stop.check());
    grepper.report(answer);
  }
  TRY(pages.add(collector.take(std::nullopt)));
  TRY(pages.finish(collector.is_cut(), answer));
  return answer;
}

}  // namespace sallyport::worker

#include "worker/walk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "worker/ignore_files.h"
#include "worker/listing.h"
#include "worker/masks.h"

namespace sallyport::worker {
namespace {

using Directory = std::shared_ptr<const WalkDirectory>;

std::shared_ptr<const IgnoreScope> add_scope(std::shared_ptr<const IgnoreScope> parent, std::size_t base,
                                             const RulesText& text, Skipped& skipped) {
  if (text.is_cut) ++skipped.ignore_files_cut;
  IgnoreRules rules = IgnoreRules::parse(text.text);
  if (rules.empty()) return parent;
  return std::make_shared<const IgnoreScope>(IgnoreScope{std::move(parent), base, std::move(rules)});
}

// A directory whose ignore files count.
struct RulesPlace {
  int directory;
  std::string path;  // absolute
  std::size_t base;
  bool has_git;
  bool has_gitignore;
};

// The rules in force in a directory, given its parent's. A repository starts afresh: what lies above
// it has no say inside.
std::shared_ptr<const IgnoreScope> scope_for(std::shared_ptr<const IgnoreScope> parent, const Roots& roots,
                                             const RulesPlace& at, Skipped& skipped) {
  if (at.has_git) parent = add_scope(nullptr, at.base, read_exclude(roots, at.directory, at.path), skipped);
  if (at.has_gitignore) parent = add_scope(std::move(parent), at.base, read_rules(at.directory, ".gitignore"), skipped);
  return parent;
}

bool exists(int directory, const char* name) { return ::faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0; }

// Work is a directory to open and list, or files of a listed directory to visit. The stack is last in,
// first out: the walk goes deep before it goes wide, which keeps few descriptors open.
struct Task {
  Directory parent;  // to open `name` in; or, with files, the directory itself
  std::string name;
  std::shared_ptr<const IgnoreScope> scope;
  std::string files;  // kind byte, name, NUL; again

  // What it visits lies at or behind this path, where listings are sorted.
  std::string first_path() const {
    return files.empty() ? parent->path + name + "/" : parent->path + std::string(files.c_str() + 1);
  }
};

class Walk {
 public:
  Walk(const Roots& roots, std::string start, std::string prefix, const WalkOptions& options, const Stop& stop,
       WalkVisitor& visitor)
      : roots_(roots),
        masks_(roots),
        start_path_(std::move(start)),
        prefix_(std::move(prefix)),
        options_(options),
        stop_(stop),
        visitor_(visitor),
        threads_(walk_threads(options)),
        tells_reached_(visitor.wants_reached()) {}

  Result<Skipped> run(Directory start, std::shared_ptr<const IgnoreScope> scope) {
    start_ = std::move(start);
    start_scope_ = std::move(scope);
    pending_ = 1;
    std::vector<std::thread> helpers;
    work(0, &helpers);
    for (std::thread& helper : helpers) helper.join();
    TRY(failure_);
    return skipped_;
  }

 private:
  // The first worker begins alone and calls helpers only when there is work to share: most trees an
  // agent looks at are smaller than the price of a thread.
  void work(unsigned worker, std::vector<std::thread>* helpers) {
    Listing listing;
    std::vector<Task> found;
    Skipped skipped;
    if (worker == 0) {
      list(worker, start_, start_scope_, listing, found, skipped);
      finish(worker, found);
    }
    Task task;
    while (next(worker, task)) {
      if (worker == 0 && tells_reached_) tell_reached();
      if (stop_.is_over() || has_failed_.load(std::memory_order_relaxed))
        abandon();
      else if (!task.files.empty())
        visit_files(worker, task);
      else
        enter(worker, task, listing, found, skipped);
      task = Task();
      if (finish(worker, found) > kShareFrom && helpers != nullptr) {
        start(*helpers);
        helpers = nullptr;
      }
    }
    const std::lock_guard lock(mutex_);
    skipped_ += skipped;
  }

  static constexpr std::size_t kShareFrom = 8;

  void start(std::vector<std::thread>& helpers) {
    try {
      for (unsigned i = 1; i < threads_; ++i) helpers.emplace_back([this, i] { work(i, nullptr); });
    } catch (const std::system_error&) {
      // The container's limit on processes: slower alone, but not wrong.
    }
  }

  bool next(unsigned worker, Task& task) {
    std::unique_lock lock(mutex_);
    while (tasks_.empty() && pending_ != 0) {
      ++waiting_;
      if (worker != 0) {
        changed_.wait(lock);
      } else if (changed_.wait_for(lock, kPollInterval) == std::cv_status::timeout) {
        // Only this thread sees a cancel, however long the others are busy with a file each.
        lock.unlock();
        stop_.poll();
        lock.lock();
      }
      --waiting_;
    }
    if (tasks_.empty()) return false;
    task = std::move(tasks_.back());
    tasks_.pop_back();
    if (tells_reached_) in_work_[worker] = task.first_path();
    return true;
  }

  // One piece of work is done and gave rise to others. Answers how many wait.
  std::size_t finish(unsigned worker, std::vector<Task>& found) {
    const std::lock_guard lock(mutex_);
    in_work_[worker].reset();
    pending_ += found.size();
    --pending_;
    // Reversed, so that the first is taken first.
    std::reverse(found.begin(), found.end());
    for (Task& task : found) tasks_.push_back(std::move(task));
    if (waiting_ > 0 && (found.size() > 1 || pending_ == 0))
      changed_.notify_all();
    else if (waiting_ > 0 && !found.empty())
      changed_.notify_one();
    found.clear();
    return tasks_.size();
  }

  void abandon() {
    const std::lock_guard lock(mutex_);
    pending_ -= tasks_.size();
    tasks_.clear();
    changed_.notify_all();
  }

  // The path before which nothing is left, on the stack or in work.
  std::string least_path() {
    const std::lock_guard lock(mutex_);
    std::optional<std::string> least;
    const auto consider = [&](std::string path) {
      if (!least || path < *least) least = std::move(path);
    };
    for (const Task& task : tasks_) consider(task.first_path());
    for (const auto& path : in_work_) {
      if (path) consider(*path);
    }
    return least.value_or(std::string());
  }

  void tell_reached() {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now - last_told_ < kReachedInterval) return;
    failure_ = visitor_.reached(least_path());
    if (!failure_) has_failed_.store(true, std::memory_order_relaxed);
    last_told_ = std::chrono::steady_clock::now();
  }

  void enter(unsigned worker, const Task& task, Listing& listing, std::vector<Task>& found, Skipped& skipped) {
    auto directory = std::make_shared<WalkDirectory>();
    directory->path.reserve(task.parent->path.size() + task.name.size() + 1);
    directory->path.append(task.parent->path).append(task.name).append(1, '/');
    directory->depth = task.parent->depth + 1;
    if (!visitor_.wants_directory(directory->path)) return;
    directory->fd = UniqueFd(::openat(task.parent->fd.get(), task.name.c_str(),
                                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!directory->fd) {
      ++skipped.unreadable;
      return;
    }
    list(worker, std::move(directory), task.scope, listing, found, skipped);
  }

  void list(unsigned worker, const Directory& directory, std::shared_ptr<const IgnoreScope> scope, Listing& listing,
            std::vector<Task>& found, Skipped& skipped) {
    if (!listing.read(directory->fd.get())) {
      ++skipped.unreadable;
      return;
    }
    if (listing.entries().empty() && masks_.is_mask(directory->fd.get())) ++skipped.masked;
    if (visitor_.wants_order()) listing.sort();
    const bool is_start = directory == start_;
    if (!options_.with_ignored && !is_start && (listing.has_git() || listing.has_gitignore())) {
      scope = scope_for(std::move(scope), roots_,
                        {directory->fd.get(), start_path_ + directory->path, prefix_.size() + directory->path.size(),
                         listing.has_git(), listing.has_gitignore()},
                        skipped);
    }
    std::string path = prefix_ + directory->path;
    const std::size_t base = path.size();
    std::string files;
    std::size_t batched = 0;
    const bool is_large = listing.entries().size() > kBatchFiles;
    std::size_t looked_at = 0;
    for (const Listing::Entry& entry : listing.entries()) {
      if (++looked_at % 64 == 0 && stop_.is_over()) break;
      const std::string_view name = listing.name(entry);
      const bool is_directory = entry.kind == EntryKind::directory;
      Verdict verdict = Verdict::none;
      if (!options_.with_ignored) {
        if (scope) {
          path.resize(base);
          path += name;
          verdict = IgnoreScope::judge(scope.get(), path, name, is_directory, stop_);
        }
        if (verdict == Verdict::ignored || name == ".git") {
          ++skipped.ignored;
          continue;
        }
      }
      if (name[0] == '.' && !options_.with_hidden && verdict != Verdict::included) {
        ++skipped.hidden;
        continue;
      }
      if (is_directory && name == own_process_ && is_on_proc(directory->fd.get())) {
        ++skipped.special;
        continue;
      }
      if (is_directory) {
        visitor_.visit(worker, *directory, name, entry.kind);
        if (directory->depth + 1 >= kMaxWalkDepth)
          ++skipped.too_deep;
        else
          found.push_back({directory, std::string(name), scope, {}});
      } else if (!is_large) {
        visitor_.visit(worker, *directory, name, entry.kind);
      } else {
        files.append(1, static_cast<char>(entry.kind)).append(listing.c_name(entry), name.size() + 1);
        if (++batched == kBatchFiles) {
          found.push_back({directory, {}, nullptr, std::move(files)});
          files.clear();
          batched = 0;
        }
      }
    }
    if (!files.empty()) found.push_back({directory, {}, nullptr, std::move(files)});
  }

  void visit_files(unsigned worker, const Task& task) {
    for (std::string_view left = task.files; !left.empty();) {
      const auto kind = static_cast<EntryKind>(left[0]);
      const std::string_view name(left.data() + 1);
      visitor_.visit(worker, *task.parent, name, kind);
      left.remove_prefix(name.size() + 2);
    }
  }

  const Roots& roots_;
  Masks masks_;
  const std::string own_process_ = std::to_string(::getpid());  // what the kernel shows of it is not for those we serve
  std::string start_path_;                                      // absolute, with a slash at its end
  std::string prefix_;                                          // from the topmost ignore file's directory to the start
  WalkOptions options_;
  const Stop& stop_;
  WalkVisitor& visitor_;
  unsigned threads_;
  const bool tells_reached_;
  Directory start_;
  std::shared_ptr<const IgnoreScope> start_scope_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> tasks_;
  std::size_t pending_ = 0;                                          // tasks on the stack or in work
  std::array<std::optional<std::string>, kMaxWalkThreads> in_work_;  // where each thread's task begins
  SteadyTime last_told_{};
  Status failure_ = ok();  // of the visitor; the first thread's
  std::atomic<bool> has_failed_{false};
  unsigned waiting_ = 0;
  Skipped skipped_;
};

// The scope of the start itself: ignore files from the repository's top (or the view's root) down to
// it. Opened through the roots, so that nothing outside is read. `prefix` becomes the path from there.
std::shared_ptr<const IgnoreScope> scope_above(const Roots& roots, std::string_view start, std::string& prefix,
                                               Skipped& skipped) {
  const std::string whole = roots.absolute(start);
  std::vector<std::string> chain;  // the start first
  for (std::string at = whole;;) {
    const auto directory = roots.open_directory(at);
    if (!directory) break;
    chain.push_back(at);
    if (at == "/" || at == roots.workspace() || exists(directory->get(), ".git")) break;
    at = at.substr(0, std::max<std::size_t>(at.rfind('/'), 1));
  }
  if (chain.empty()) return nullptr;
  const std::string top = chain.back();
  const auto relative = [&](const std::string& path) {
    std::string rest = path.size() > top.size() ? path.substr(top == "/" ? 1 : top.size() + 1) + "/" : "";
    return rest;
  };
  prefix = relative(whole);
  std::shared_ptr<const IgnoreScope> scope;
  std::reverse(chain.begin(), chain.end());
  for (const std::string& at : chain) {
    const auto directory = roots.open_directory(at);
    if (!directory) continue;
    scope = scope_for(std::move(scope), roots,
                      {directory->get(), at, relative(at).size(), exists(directory->get(), ".git"), true}, skipped);
  }
  return scope;
}

}  // namespace

Skipped& Skipped::operator+=(const Skipped& other) {
  ignored += other.ignored;
  hidden += other.hidden;
  unreadable += other.unreadable;
  symlinks += other.symlinks;
  special += other.special;
  too_deep += other.too_deep;
  binary += other.binary;
  too_large += other.too_large;
  masked += other.masked;
  long_lines += other.long_lines;
  ignore_files_cut += other.ignore_files_cut;
  return *this;
}

unsigned walk_threads(const WalkOptions& options) {
  if (options.threads != 0) return std::min(options.threads, kMaxWalkThreads);
  return std::clamp(std::thread::hardware_concurrency(), 1U, kMaxWalkThreads);
}

Result<Skipped> walk(const Roots& roots, std::string_view start, const WalkOptions& options, const Stop& stop,
                     WalkVisitor& visitor) {
  TRY(stop.check());
  auto directory = std::make_shared<WalkDirectory>();
  TRY(directory->fd, roots.open_directory(start));
  std::string prefix;
  std::shared_ptr<const IgnoreScope> scope;
  Skipped skipped;
  if (!options.with_ignored) scope = scope_above(roots, start, prefix, skipped);
  std::string path = roots.absolute(start);
  if (!path.ends_with('/')) path += '/';
  Walk whole(roots, std::move(path), std::move(prefix), options, stop, visitor);
  TRY(const Skipped below, whole.run(std::move(directory), std::move(scope)));
  TRY(stop.check());
  return skipped += below;
}

}  // namespace sallyport::worker

#include "sandbox/exit_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>

#include "os/paths.h"
#include "sandbox/git_config.h"
#include "sandbox/git_files.h"
#include "sandbox/git_index.h"
#include "sandbox/git_state.h"
#include "sandbox/held_directory.h"
#include "sandbox/protected_names.h"
#include "sandbox/scan_baseline.h"
#include "sandbox/walk.h"

namespace sallyport::sandbox {
namespace {

// More hooks than this are not a person's: their directory is set aside as a whole.
constexpr std::size_t kMaxHooks = 64;
constexpr std::uint64_t kMaxInPin = 4096;  // entries of a directory that was pinned

using Behind = ScanBaseline::Behind;
using Origin = ScanBaseline::Origin;

// Git makes neither, and opens both: a pipe makes it wait for ever.
bool is_not_gits(const WalkEntry& entry) { return entry.type == DT_LNK || entry.type == DT_FIFO; }

class Scanner {
 public:
  Scanner(const Findings& at_launch, const HeldDirectory& root)
      : at_launch_(at_launch), root_(root), baseline_(at_launch, root) {}

  // Once more where something was closed, and is open now: what leads through it could not be judged before.
  ScanReport scan() {
    constexpr int kMostTimes = 3;
    for (int times = 0; times < kMostTimes; ++times) {
      const std::size_t open_before = opened_.size();
      scan_once();
      if (opened_.size() == open_before || is_late()) break;
    }
    drop_what_is_gone();
    report_.notes.insert(report_.notes.end(), faults_.begin(), faults_.end());
    if (was_cut_) {
      report_.notes.push_back("the scan of the workspace was cut after " + std::to_string(entries_) +
                              " entries: what lies beyond them was not looked at");
    }
    return std::move(report_);
  }

 private:
  // What the host's git is sure to use comes first, what is large and seldom holds anything last. What an earlier time
  // found stays found: this one may be cut.
  void scan_once() {
    deadline_ = std::chrono::steady_clock::now() + bounds_.time;
    entries_ = path_bytes_ = 0;
    report_.notes.clear();
    checked_.clear();
    inside_.clear();
    later_.clear();
    for (const Configured& configured : at_launch_.configured) check_configured(configured);
    check_git(root_, ".git");
    search(root_.path(), later_, [&](const WalkEntry& entry) { return visit(entry); });
  }

  // Named twice, or set aside since.
  void drop_what_is_gone() {
    std::set<std::string> named;
    std::erase_if(report_.suspicious, [&](const std::string& path) {
      const auto directory = root_.open_inside(parent_of(path));
      const bool is_gone = directory && !directory->look_at(path.substr(path.rfind('/') + 1));
      return is_gone || !named.insert(path).second;
    });
  }

  // ---- finding ----

  // `later` takes directories to search when all else has been.
  template <typename Visit>
  void search(std::string from, std::vector<std::string>& later, const Visit& visit) {
    for (std::size_t next = 0;; from = later[next++]) {
      WalkBounds bounds = bounds_;
      bounds.entries -= std::min(bounds.entries, entries_);
      bounds.path_bytes -= std::min(bounds.path_bytes, path_bytes_);
      bounds.time = time_left();
      const WalkResult walked = walk(root_, from, bounds, visit);
      entries_ += walked.entries;
      path_bytes_ += walked.path_bytes;
      was_cut_ = was_cut_ || walked.was_cut;
      for (const std::string& path : walked.unreadable) {
        if (!baseline_.is_covered(path) && opens(path)) later.push_back(path);
      }
      if (next == later.size() || is_late()) return;
    }
  }

  // Closed to us, but git may reach what it knows the name of.
  bool opens(const std::string& path) {
    const auto below = path == root_.path() ? std::nullopt : root_.open_inside(path);
    const HeldDirectory* const directory = path == root_.path() ? &root_ : below ? &*below : nullptr;
    const bool may_open = directory == &root_ || (directory != nullptr && baseline_.may_be_new(*directory));
    const bool is_open = may_open && !opened_.contains(path) && directory->open_up() && opened_.insert(path).second;
    if (!is_open) report_.notes.push_back(path + " cannot be searched, and was not looked into");
    return is_open;
  }

  bool visit(const WalkEntry& entry) {
    const std::string name(entry.name);
    const std::string parent = parent_of(entry.path);
    if (name == ".git") {
      in_directory(parent, [&](const HeldDirectory& directory) { check_git(directory, name); });
      return false;
    }
    if (name == "HEAD") in_directory(parent, [&](const HeldDirectory& directory) { check_bare(directory); });
    const bool is_seen = !baseline_.is_beneath_skipped(parent);
    if (is_seen && is_project_setting(name.c_str())) {
      in_directory(parent, [&](const HeldDirectory& directory) { check_project_setting(directory, name); });
    }
    if ((is_seen && is_setting(name.c_str())) || is_setting_path(entry.path)) {
      in_directory(parent, [&](const HeldDirectory& directory) { check_setting(directory, name); });
    }
    if (!is_skipped(name)) return true;
    if (entry.type == DT_DIR) later_.push_back(entry.path);
    return false;
  }

  template <typename Work>
  void in_directory(const std::string& path, const Work& work) {
    if (const auto directory = open(path)) work(*directory);
  }

  // What cannot be searched or changed although it is ours is opened.
  std::optional<HeldDirectory> open(const std::string& path) {
    auto directory = root_.open_inside(path);
    if (!directory) {
      const bool is_gone = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
      if (!is_gone) report_.notes.push_back(path + " cannot be reached, and was not looked at");
      return std::nullopt;
    }
    const auto info = directory->look();
    const bool is_closed = info && (info->st_mode & S_IRWXU) != S_IRWXU && ::geteuid() != 0;
    if (is_closed && !baseline_.is_covered(path) && baseline_.may_be_new(*directory)) (void)directory->open_up();
    return directory;
  }

  // ---- judging ----

  using Judge = void (Scanner::*)(const HeldDirectory& directory, const std::string& name);

  void check_setting(const HeldDirectory& directory, const std::string& name) {
    const std::string path = directory.path_of(name);
    if (baseline_.was_link(path) && is_type(directory.look_at(name), S_IFLNK)) {
      check_link(directory, name, &Scanner::judge_setting);
    } else if (baseline_.is_as_pinned(directory, name)) {
      check_pinned(path, &Scanner::judge_setting);
    } else if (baseline_.origin_of(directory, name) != Origin::old) {
      suspect(path);
    }
  }

  // What the project's own work may write.
  void check_project_setting(const HeldDirectory& directory, const std::string& name) {
    if (baseline_.origin_by_time(directory, name) == Origin::fresh) suspect(directory.path_of(name));
  }

  // The files and links in a directory that was pinned, or that was behind a link in one.
  void check_pinned(const std::string& path, Judge judge) {
    if (!root_.open_inside(path) || !inside_.insert(path).second) return;
    const WalkResult walked = walk(root_, path, {time_left(), kMaxInPin}, [&](const WalkEntry& entry) {
      const std::string name(entry.name);
      const bool is_used = entry.type != DT_DIR && !name.ends_with(".sample") && !name.ends_with(".quarantined");
      const auto directory = is_used ? root_.open_inside(parent_of(entry.path)) : std::nullopt;
      if (directory && entry.type == DT_LNK) check_link(*directory, name, judge);
      if (directory && baseline_.is_written(*directory, name)) (this->*judge)(*directory, name);
      return !is_skipped(name);
    });
    was_cut_ = was_cut_ || walked.was_cut;
  }

  void check_link(const HeldDirectory& directory, const std::string& name, Judge judge) {
    if (baseline_.look_behind(directory, name) != Behind::same) return (this->*judge)(directory, name);
    if (const auto target = baseline_.target_of(directory, name)) check_pinned(*target, judge);
  }

  void judge_setting(const HeldDirectory& directory, const std::string& name) { suspect(directory.path_of(name)); }

  // Only what may have been done from inside is set aside: the host writes behind pins as well.
  void judge_hook(const HeldDirectory& directory, const std::string& name) {
    const std::string path = directory.path_of(name);
    const bool was_link = baseline_.was_link(path);
    const bool may_be_from_inside =
        was_link ? baseline_.look_behind(directory, name) == Behind::other : baseline_.had_other_names(path);
    // A link that did not change itself is not known for new by its time.
    if (!may_be_from_inside || (was_link && !baseline_.is_listed(directory.path()))) return suspect(path);
    set_aside(directory, name);
  }

  // Judges the target, if it is inside. A link that is new or leads elsewhere than at launch is set aside.
  void follow(const HeldDirectory& directory, const std::string& name, Judge judge) {
    const auto then = at_launch_.links.find(directory.path_of(name));
    const bool is_same_text = then != at_launch_.links.end() && then->second.text == directory.link_text(name);
    // Whatever this finds is opened again, without following anything.
    const auto now = os::real_path(directory.path_of(name));
    if (is_same_text && now && os::is_below(*now, root_.path())) {
      return at(*now, [&](const HeldDirectory& holder, const std::string& real) { (this->*judge)(holder, real); });
    }
    if (!is_same_text || now.value_or("") != then->second.resolved) set_aside(directory, name);
  }

  // Calls with the directory and the name of something inside.
  template <typename Work>
  void at(const std::string& path, const Work& work) {
    in_directory(parent_of(path),
                 [&](const HeldDirectory& directory) { work(directory, path.substr(path.rfind('/') + 1)); });
  }

  void check_configured(const Configured& configured) {
    const auto now = os::real_path(configured.path);
    if (!now || (*now != configured.resolved && sets_new_link_aside(configured.path)) || *now == root_.path()) return;
    if (!os::is_below(*now, root_.path())) {
      if (*now != configured.resolved) suspect(configured.path);
      return;
    }
    at(*now, [&](const HeldDirectory& directory, const std::string& name) {
      switch (configured.kind) {
        case Configured::Kind::hooks:
          return check_hooks(directory, name);
        case Configured::Kind::hook:
          if (!baseline_.is_where_pinned(directory, name)) return set_aside(directory, name);
          if (baseline_.is_written(directory, name)) judge_hook(directory, name);
          return;
        case Configured::Kind::config:
          return check_config(directory, name);
      }
    });
  }

  // Of the links on the way to it the first that is new, wherever in the workspace it lies. One that leads to what has
  // another use, such as the tree itself, would make hooks of all that is in it.
  bool sets_new_link_aside(const std::string& path) {
    for (const std::string& link : os::follow_links(path).links) {
      bool is_done = false;
      if (!os::is_below(link, root_.path()) || is_like_own_link(link)) continue;
      at(link, [&](const HeldDirectory& directory, const std::string& name) {
        is_done = is_type(directory.look_at(name), S_IFLNK) && is_new(directory, name);
        if (is_done) set_aside(directory, name);
      });
      if (is_done) return true;
    }
    return false;
  }

  // In another tree of a repository, or a copy of it, as the user has it in their own: where it leads is judged there.
  bool is_like_own_link(const std::string& path) const {
    const auto directory = root_.open_inside(parent_of(path));
    const std::string name = path.substr(path.rfind('/') + 1);
    const std::string text = directory ? directory->link_text(name) : "";
    return !text.empty() && text.front() != '/' && text.find("..") == std::string::npos && text != "." &&
           std::any_of(at_launch_.links.begin(), at_launch_.links.end(),
                       [&](const auto& own) { return own.second.text == text && own.first.ends_with("/" + name); });
  }

  void check_git(const HeldDirectory& directory, const std::string& name) {
    const bool is_link = is_type(directory.look_at(name), S_IFLNK);
    is_link ? follow(directory, name, &Scanner::check_place) : check_place(directory, name);
  }

  void check_place(const HeldDirectory& directory, const std::string& name) {
    const auto info = directory.look_at(name);
    if (is_type(info, S_IFREG)) check_pointer(directory, name);
    if (!is_type(info, S_IFDIR)) return;
    check_repository(directory.path_of(name));
    check_tree(directory, name, directory.path_of(name));
  }

  // Without a ".git" around it git takes a directory for a repository if these are in it.
  void check_bare(const HeldDirectory& directory) {
    if (is_bare_repository(directory.fd())) check_repository(directory.path());
  }

  // "gitdir: somewhere": the repository there is what the host's git will use.
  void check_pointer(const HeldDirectory& directory, const std::string& name) {
    const auto text = read_small_file_at(directory.fd(), name.c_str());
    const auto target = text ? pointer_target(*text, directory.path()) : std::nullopt;
    const auto real = target ? os::real_path(*target) : std::nullopt;
    if (real && os::is_below(*real, root_.path())) {
      check_repository(*real);
      check_tree(directory, name, *real);
    }
    // A link on the way may lead elsewhere tomorrow.
    const bool is_straight = real && *real == std::filesystem::path(*target).lexically_normal();
    const bool is_kept = !target || (is_straight && is_gits_own(*real)) || baseline_.is_as_pinned(directory, name);
    if (!is_kept) set_aside(directory, name);
  }

  // A relative core.hooksPath is another directory in each tree. Those of trees that were there are known by name.
  void check_tree(const HeldDirectory& tree, const std::string& name, const std::string& git) {
    if (baseline_.is_where_pinned(tree, name)) return;
    for (const auto& [owner, values] : at_launch_.relative_hooks) {
      if (!owner.empty() && !git.starts_with(owner + "/worktrees/")) continue;
      for (const std::string& value : values) {
        const std::string path = tree.path_of(value);
        const bool is_above = os::is_within(tree.path(), os::real_path(path).value_or(""));
        if (!sets_new_link_aside(path) && !is_above) check_configured({Configured::Kind::hooks, path, ""});
      }
    }
  }

  // A worktree or a submodule, where only git itself puts anything: no branch has files in a ".git". Elsewhere that is
  // known only of a repository that was there.
  bool is_gits_own(const std::string& path) const {
    for (std::string git = parent_of(path); os::is_within(git, root_.path()); git = parent_of(git)) {
      const std::string_view below = std::string_view(path).substr(git.size());
      const bool is_nested = below.starts_with("/modules/") || below.starts_with("/worktrees/");
      if (is_nested && (git.ends_with("/.git") || baseline_.is_covered(git + "/config"))) return true;
    }
    return false;
  }

  std::chrono::milliseconds time_left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  }

  // One for all of it: repositories with thousands of submodules count like files.
  bool is_late() {
    if (std::chrono::steady_clock::now() < deadline_) return false;
    was_cut_ = true;
    return true;
  }

  // Those that are found meanwhile wait: they may be many, and lead to each other.
  void check_repository(const std::string& path) {
    if (!checked_.insert(path).second) return;
    waiting_.push_back(path);
    if (waiting_.size() > 1) return;
    for (; !waiting_.empty(); waiting_.pop_front()) {
      if (!is_late()) check_git_directory(waiting_.front());
    }
  }

  // Git writes through links, and takes what they lead to for its own, but makes none. All of them are found before
  // anything gets another name. Submodules have any names, and are in each other.
  void check_git_directory(const std::string& git) {
    std::vector<std::string> links, states, nests, repositories, later;
    const auto below = [&](const std::string& path) { return path.substr(git.size() + 1); };
    const auto note = [&](const WalkEntry& entry) {
      if (is_not_gits(entry)) links.push_back(entry.path);
      if (is_git_state(below(entry.path))) states.push_back(below(entry.path));
      if (entry.name == "HEAD" && parent_of(entry.path) != git) repositories.push_back(parent_of(entry.path));
      return true;
    };
    search(git, later, [&](const WalkEntry& entry) {
      const bool is_nest = below(entry.path) == "modules" || below(entry.path) == "worktrees";
      if (entry.type == DT_DIR && is_nest) nests.push_back(entry.path);
      const bool is_searched = is_for_git(git, below(entry.path), entry.name) || may_hide(entry);
      return note(entry) && !is_nest && is_searched;
    });
    for (const std::string& nest : nests) {
      later.clear();
      search(nest, later, note);
    }
    in_directory(git, [&](const HeldDirectory& directory) {
      check_parts(directory);
      check_states(directory);
    });
    for (const std::string& path : repositories) {
      in_directory(path, [&](const HeldDirectory& directory) {
        if (!is_bare_repository(directory.fd()) || !checked_.insert(path).second) return;
        check_parts(directory);
        if (!is_late()) check_states(directory);
      });
    }
    for (const std::string& path : states) {
      if (is_late()) return;
      check_state(git, path);
    }
    for (const std::string& link : links) {
      if (is_late()) return;
      at(link, [&](const HeldDirectory& directory, const std::string& name) {
        if (!is_symbolic_ref(below(link), directory.link_text(name))) check_inner_link(directory, name);
      });
    }
  }

  // Git puts only files among its loose objects. What else may be there is known without reading all of their names:
  // a directory has a link from each one in it.
  bool may_hide(const WalkEntry& entry) const {
    const bool is_loose = entry.type == DT_DIR && parent_of(entry.path).ends_with("/objects");
    const auto directory = is_loose ? root_.open_inside(entry.path) : std::nullopt;
    const auto info = directory ? directory->look() : std::nullopt;
    return info && (info->st_nlink != 2 || directory->look_at("HEAD"));
  }

  void check_inner_link(const HeldDirectory& directory, const std::string& name) {
    const auto info = directory.look_at(name);
    if ((!is_type(info, S_IFLNK) && !is_type(info, S_IFIFO)) || aside_.contains(directory.path_of(name))) return;
    const auto then = at_launch_.links.find(directory.path_of(name));
    const bool is_same = then != at_launch_.links.end() && then->second.text == directory.link_text(name);
    if (!is_same && is_new(directory, name)) set_aside(directory, name);
  }

  void check_parts(const HeldDirectory& git) {
    check_hooks(git, "hooks");
    check_commondir(git);
    for (const char* name : {"config", "config.worktree"}) check_config(git, name);
    if (git.look_at(kGitSetting)) check_setting(git, kGitSetting);
  }

  bool is_new(const HeldDirectory& directory, const std::string& name) const {
    return baseline_.origin_by_time(directory, name) != Origin::old;
  }

  void check_hooks(const HeldDirectory& directory, const std::string& name) {
    const auto info = directory.look_at(name);
    if (!info) return;
    if (baseline_.is_as_pinned(directory, name)) {
      return check_pinned(directory.path_of(name), &Scanner::judge_hook);
    }
    if (is_type(info, S_IFLNK)) return follow(directory, name, &Scanner::check_hooks);
    const auto hooks = is_type(info, S_IFDIR) ? open(directory.path_of(name)) : std::nullopt;
    const auto found = hooks ? hooks->list(kMaxHooks) : std::nullopt;
    if (!found || found->size() == kMaxHooks) return set_aside(directory, name);
    for (const std::string& hook : *found) {
      const bool is_none = hook.ends_with(".sample") || hook.ends_with(".quarantined");
      if (!is_none && !baseline_.is_like_own_hook(*hooks, hook)) set_aside(*hooks, hook);
    }
  }

  // A worktree's own common directory is "../..", and not ours to judge when it is that; but what it leads
  // to is where git takes hooks and configuration from.
  void check_commondir(const HeldDirectory& git) {
    if (!git.look_at("commondir")) return;
    const auto text = read_small_file_at(git.fd(), "commondir");
    const bool is_worktree = parent_of(git.path()).ends_with("/worktrees");
    // Another sandbox may just have made a placeholder: that is the same to git as none.
    const bool is_expected =
        baseline_.is_as_pinned(git, "commondir") || text == kPlaceholderText || (is_worktree && text == "../..\n");
    if (!is_expected) set_aside(git, "commondir");
    if (!text || (!is_expected && !git.look_at("commondir"))) return;
    const auto common = os::real_path(commondir_target(*text, git.path()));
    if (common && os::is_within(*common, root_.path())) check_repository(*common);
  }

  // By their names: what else is in the directory may be more than can be searched.
  void check_states(const HeldDirectory& git) {
    std::vector<std::string> found = git_state_files();
    for (const char* remotes : {"remotes", "branches"}) {
      std::vector<std::string> later;
      search(git.path_of(remotes), later, [&](const WalkEntry& entry) {
        found.push_back(entry.path.substr(git.path().size() + 1));
        return true;
      });
    }
    for (const std::string& below : found) check_state(git.path(), below);
    if (lists_a_link(git)) set_aside(git, "MERGE_RR");
    const bool is_worktree = parent_of(git.path()).ends_with("/worktrees") && git.look_at("gitdir");
    if (is_worktree && is_new(git, "gitdir") && is_led_out(git, root_)) set_aside(git, "gitdir");
  }

  // Only what changed: an index is large, and read whenever git is used.
  void check_state(const std::string& git, const std::string& below) {
    at(git + "/" + below, [&](const HeldDirectory& directory, const std::string& name) {
      const std::string path = directory.path_of(name);
      if (!is_type(directory.look_at(name), S_IFREG) || !is_new(directory, name)) return;
      if (!checked_.insert(path).second) return;
      const std::size_t name_bytes = name_bytes_in(config_of(directory, root_));
      const auto content = read_small_file_at(directory.fd(), name.c_str(), kMaxGitStateBytes);
      const GitState state = content ? judge_git_state(below, *content, name_bytes) : GitState::leads_away;
      if (state == GitState::leads_away) set_aside(directory, name);
      if (state == GitState::may_run) suspect(path);
      const std::string base = content && name == "index" ? base_of_index(*content, name_bytes) : "";
      if (!base.empty()) check_state(directory.path(), base);
    });
  }

  void check_config(const HeldDirectory& directory, const std::string& name) {
    const auto info = directory.look_at(name);
    if (baseline_.is_as_pinned(directory, name) || !info) return;
    if (is_type(info, S_IFLNK)) return follow(directory, name, &Scanner::check_config);
    if (!is_type(info, S_IFREG)) return set_aside(directory, name);
    const auto config = read_small_file_at(directory.fd(), name.c_str(), kMaxGitConfigBytes);
    const auto own = at_launch_.own_settings.find(directory.path_of(name));
    const auto safe = config
                          ? without_harmful(*config, own == at_launch_.own_settings.end() ? OwnSettings{} : own->second)
                          : std::optional<std::string>("");
    if (!safe) return;
    // A secret is not given another name. What made a repository of its directory is.
    const bool is_repository = name == "config" && is_bare_repository(directory.fd()) && is_new(directory, "HEAD");
    if (is_repository && baseline_.was_masked(directory.path_of(name))) set_aside(directory, "HEAD");
    set_aside(directory, name);
    if (!directory.look_at(name) && !directory.write_new(name, *safe)) {
      faults_.push_back(directory.path_of(name) + " could not be written back without what was taken out");
    }
  }

  void suspect(const std::string& path) { report_.suspicious.push_back(path); }

  void set_aside(const HeldDirectory& directory, const std::string& name) {
    const Origin origin = baseline_.origin_of(directory, name);
    if (origin == Origin::old) return;
    const std::string path = directory.path_of(name);
    // Under another name it would not be hidden any more.
    if (baseline_.was_masked(path)) return suspect(path);
    auto aside = origin == Origin::fresh ? directory.set_aside(name) : std::nullopt;
    if (origin == Origin::fresh && !aside && directory.open_up()) aside = directory.set_aside(name);
    if (!aside) return suspect(path);
    aside_.insert(directory.path_of(*aside));
    report_.quarantined.push_back(path);
  }

  const Findings& at_launch_;
  const HeldDirectory& root_;
  const ScanBaseline baseline_;
  ScanReport report_;
  // Longer than at launch, where somebody waits: what is not looked at stays.
  const WalkBounds bounds_{std::chrono::seconds(2)};
  std::chrono::steady_clock::time_point deadline_;
  std::vector<std::string> faults_;
  bool was_cut_ = false;
  std::uint64_t entries_ = 0, path_bytes_ = 0;
  std::vector<std::string> later_;   // directories to search when all else has been
  std::deque<std::string> waiting_;  // repositories; the first is being looked at
  std::set<std::string> checked_, opened_, inside_;
  std::set<std::string> aside_;  // what was given another name, by that
};

}  // namespace

std::vector<std::string> ScanReport::sentences() const {
  std::vector<std::string> all;
  all.reserve(quarantined.size() + suspicious.size() + notes.size());
  for (const std::string& path : quarantined) all.push_back("quarantined: " + path);
  for (const std::string& path : suspicious) all.push_back("new, and may run code on the host: " + path);
  all.insert(all.end(), notes.begin(), notes.end());
  return all;
}

ScanReport scan_at_exit(const Findings& at_launch) {
  ScanReport nothing;
  if (!at_launch.needs_scan) return nothing;
  const auto root = HeldDirectory::open(at_launch.workspace);
  const auto info = root ? root->look() : std::nullopt;
  if (info && id_of(*info) == at_launch.workspace_id) return Scanner(at_launch, *root).scan();
  nothing.notes.push_back(at_launch.workspace + " was moved while the sandbox ran, and was not looked at");
  return nothing;
}

}  // namespace sallyport::sandbox

#include "sandbox/scan_baseline.h"

#include <algorithm>

#include "os/paths.h"
#include "sandbox/git_files.h"

namespace sallyport::sandbox {
namespace {
constexpr std::size_t kMaxHookBytes = 1U << 20;
}

ScanBaseline::ScanBaseline(const Findings& at_launch, const HeldDirectory& root)
    : at_launch_(at_launch), root_(root), pins_(at_launch.pins.begin(), at_launch.pins.end()), covered_(pins_) {
  covered_.insert(at_launch.mask_directories.begin(), at_launch.mask_directories.end());
  known_ = covered_;
  known_.insert(at_launch.pin_writable.begin(), at_launch.pin_writable.end());
}

bool ScanBaseline::is_where_pinned(const HeldDirectory& directory, const std::string& name) const {
  return known_.contains(directory.path_of(name)) && is_in_place(directory);
}

bool ScanBaseline::is_as_pinned(const HeldDirectory& directory, const std::string& name) const {
  return is_where_pinned(directory, name) && !is_written(directory, name);
}

bool ScanBaseline::is_written(const HeldDirectory& directory, const std::string& name) const {
  const auto info = directory.look_at(name);
  if (!is_type(info, S_IFREG)) return false;
  const auto then = at_launch_.doubtful_pins.find(directory.path_of(name));
  return then != at_launch_.doubtful_pins.end() ? changed_at(*info) != then->second.changed_at : has_changed(*info);
}

bool ScanBaseline::is_like_own_hook(const HeldDirectory& hooks, const std::string& name) const {
  const auto text = read_small_file_at(hooks.fd(), name.c_str(), kMaxHookBytes);
  return text && std::any_of(at_launch_.configured.begin(), at_launch_.configured.end(), [&](const Configured& known) {
           const bool is_inside = known.kind == Configured::Kind::hooks && os::is_below(known.resolved, root_.path());
           if (!is_inside || !is_held(known.resolved)) return false;
           const auto own = root_.open_inside(known.resolved);
           return own && !is_written(*own, name) && read_small_file_at(own->fd(), name.c_str(), kMaxHookBytes) == text;
         });
}

bool ScanBaseline::was_masked(const std::string& path) const {
  return std::find(at_launch_.masks.begin(), at_launch_.masks.end(), path) != at_launch_.masks.end();
}

bool ScanBaseline::had_other_names(const std::string& path) const {
  const auto then = at_launch_.doubtful_pins.find(path);
  return then != at_launch_.doubtful_pins.end() && then->second.has_other_names;
}

ScanBaseline::Behind ScanBaseline::look_behind(const HeldDirectory& directory, const std::string& link) const {
  const std::string path = directory.path_of(link);
  const auto then = at_launch_.links.find(path);
  const bool is_same = then != at_launch_.links.end() && then->second.text == directory.link_text(link) &&
                       then->second.resolved == os::real_path(path).value_or("");
  if (!is_same) return Behind::other;
  const auto target = target_of(directory, link);
  if (!target) return Behind::same;
  const auto holder = root_.open_inside(parent_of(*target));
  const std::string name = target->substr(target->rfind('/') + 1);
  if (!holder) return Behind::other;
  if (!is_held(*target)) return origin_by_time(*holder, name) == Origin::old ? Behind::same : Behind::other;
  if (!is_written(*holder, name)) return Behind::same;
  return had_other_names(*target) ? Behind::other : Behind::written;
}

std::optional<std::string> ScanBaseline::target_of(const HeldDirectory& directory, const std::string& link) const {
  const std::string path = directory.path_of(link);
  auto target = os::real_path(path);
  if (target && (!os::is_below(*target, root_.path()) || os::is_within(path, *target))) target.reset();
  return target;
}

// By a pin of its own, or of a directory that it is in.
bool ScanBaseline::is_held(std::string path) const {
  while (path != root_.path() && !pins_.contains(path)) path = parent_of(path);
  const auto directory = path != root_.path() ? root_.open_inside(parent_of(path)) : std::nullopt;
  return directory && is_in_place(*directory);
}

bool ScanBaseline::is_in_place(const HeldDirectory& directory) const {
  const auto then = at_launch_.parents.find(directory.path());
  const auto now = directory.look();
  return then != at_launch_.parents.end() && now && id_of(*now) == then->second;
}

bool ScanBaseline::is_beneath_skipped(const std::string& path) const {
  for (std::size_t at = root_.path().size(); at < path.size();) {
    const std::size_t end = std::min(path.find('/', at + 1), path.size());
    if (is_skipped(std::string_view(path).substr(at + 1, end - at - 1))) return true;
    at = end;
  }
  return false;
}

bool ScanBaseline::is_listed(const std::string& directory) const {
  return !at_launch_.is_partial && !is_beneath_skipped(directory);
}

bool ScanBaseline::may_be_new(const HeldDirectory& directory) const {
  const auto info = directory.look();
  return is_listed(parent_of(directory.path())) || !info || has_changed(*info);
}

ScanBaseline::Origin ScanBaseline::origin_of(const HeldDirectory& directory, const std::string& name) const {
  return is_listed(directory.path()) ? Origin::fresh : origin_by_time(directory, name);
}

ScanBaseline::Origin ScanBaseline::origin_by_time(const HeldDirectory& directory, const std::string& name) const {
  const auto info = directory.look_at(name);
  if (!info || has_changed(*info)) return Origin::fresh;
  // Unchanged; but a directory above may have been moved here, which changes only that one.
  for (std::string path = directory.path(); path != root_.path(); path = parent_of(path)) {
    const auto above = root_.open_inside(path);
    if (above && is_in_place(*above)) return Origin::old;
    const auto above_info = above ? above->look() : std::nullopt;
    if (!above_info || has_changed(*above_info)) return Origin::unclear;
  }
  return Origin::old;
}

}  // namespace sallyport::sandbox

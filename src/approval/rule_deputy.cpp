#include "approval/rule_deputy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "approval/limits.h"
#include "calendar/schedule.h"
#include "policy/rule.h"
#include "policy/tokens.h"
#include "wire/json.h"

namespace sallyport::approval {
namespace {

constexpr std::int64_t kFurthestMs = 366LL * 24 * 60 * 60 * 1000;
constexpr std::size_t kMaxNameBytes = 48;  // as the host has it
// Names that mean something to the host.
constexpr std::string_view kReserved[] = {"host", "warden", "admin", "root", "default", "global", "main", "sallyport"};

Error no(std::string why) { return Error::make(Code::approval_denied, std::move(why)); }

std::string quoted(std::string_view text) { return "'" + escape_for_display(text.substr(0, 100)) + "'"; }

// ---- text ----

// One spelling: lower case, single spaces.
std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (is_space && (out.empty() || out.back() == ' ')) continue;
    out.push_back(is_space ? ' ' : c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
  }
  return out;
}

// ---- paths and names ----

Status review_name(std::string_view field, std::string_view name) {
  const bool is_plain = !name.empty() && name.size() <= kMaxNameBytes && name[0] != '-' && name[0] != '_' &&
                        std::all_of(name.begin(), name.end(), [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
                        });
  if (!is_plain) return no(std::string(field) + " " + quoted(name) + " is not 1 to 48 of a-z 0-9 - _");
  if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved)) {
    return no(std::string(field) + " " + quoted(name) + " is reserved");
  }
  return ok();
}

bool has_traversal(std::string_view path) {
  if (path.find('\0') != std::string_view::npos || path.find('\\') != std::string_view::npos) return true;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t slash = std::min(path.find('/', from), path.size());
    if (path.substr(from, slash - from) == "..") return true;
    from = slash + 1;
  }
  return false;
}

Status review_folder(std::string_view folder) {
  if (folder.empty() || folder.size() > 255) return no("the folder must be 1 to 255 bytes long");
  if (folder[0] == '/' || folder[0] == '~' || folder[0] == '.' || has_traversal(folder)) {
    return no("the folder " + quoted(folder) + " leaves the place for groups");
  }
  if (escape_for_display(folder) != folder) return no("the folder has characters that do not belong into a path");
  return ok();
}

// ---- permissions ----

Status review_list(std::string_view field, wire::Value list, const std::vector<std::string>& own) {
  for (const wire::Value item : list.items()) {
    const std::string_view name = item.as_string().value_or("");
    // A pattern is held by the same pattern or a wider one.
    if (name.empty() || !policy::matches_any(own, name)) {
      return no(std::string(field) + " asks for " + quoted(name) + ", which the sender itself may not");
    }
  }
  return ok();
}

Status review_permissions(wire::Value config, const Sender& sender) {
  if (const wire::Value profile = config.get("profile")) {
    if (profile.as_string() != sender.profile.name) return no("the profile is not the sender's own");
  }
  TRY(review_list("methods", config.get("methods"), sender.profile.methods));
  TRY(review_list("signals", config.get("signals"), sender.profile.signals));
  std::vector<std::string> all = sender.profile.methods;
  all.insert(all.end(), sender.profile.signals.begin(), sender.profile.signals.end());
  return review_list("permissions", config.get("permissions"), all);
}

// Every text in it, wherever it is.
Status review_config(wire::Value value, const policy::DeputyLimits& limits) {
  if (const auto text = value.as_string()) {
    if (has_traversal(*text)) return no("the config contains the path " + quoted(*text) + ", which leaves its place");
    return review_text("config", *text, limits);
  }
  for (const auto& [key, member] : value.members()) {
    if (has_traversal(key)) return no("the config has the key " + quoted(key));
    TRY(review_config(member, limits));
  }
  for (const wire::Value item : value.items()) TRY(review_config(item, limits));
  return ok();
}

Status review_schedule(std::string_view text, const policy::DeputyLimits& limits, std::int64_t now_ms) {
  const auto schedule = calendar::Schedule::parse(text);
  if (!schedule) return no(schedule.error().message);
  if (!schedule->is_periodic()) {
    const auto moment = schedule->next_ms(now_ms, {});
    if (!moment) return no("the scheduled time is over");
    if (*moment > now_ms + kFurthestMs) return no("the scheduled time is too far away");
  } else if (const Millis interval = schedule->least_interval(); interval < limits.interval) {
    return no("the schedule runs every " + std::to_string(interval.count() / 1000) + " s, more often than every " +
              std::to_string(limits.interval.count() / 1000) + " s");
  }
  return ok();
}

std::string_view text_of(wire::Value payload, std::string_view key) {
  return payload.get(key).as_string().value_or("");
}

bool is_commit(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The one that the payload names; one is meant when there is but one. Empty: none.
std::string repository_of(const Sender& sender, wire::Value name) {
  if (!name && sender.repositories.empty()) return sender.workspace;
  if (!name && sender.repositories.size() == 1) return sender.repositories.begin()->second;
  const auto found = sender.repositories.find(name.as_string().value_or(""));
  return found == sender.repositories.end() ? "" : found->second;
}

}  // namespace

Status review_text(std::string_view field, std::string_view text, const policy::DeputyLimits& limits) {
  if (text.size() > limits.prompt_length) {
    return no(std::string(field) + " is longer than " + std::to_string(limits.prompt_length) + " bytes");
  }
  if (is_deceptive_text(text)) return no(std::string(field) + " has characters that hide or reorder text");
  const std::string plain = folded(text);
  for (const std::string& pattern : limits.forbidden) {
    if (policy::glob_matches("*" + folded(pattern) + "*", plain)) {
      return no(std::string(field) + " contains what is forbidden: " + quoted(pattern));
    }
  }
  return ok();
}

Status review_payload(std::string_view subject, wire::Value payload, const Sender& sender, std::int64_t now_ms) {
  const policy::DeputyLimits& limits = sender.profile.deputy_limits;
  if (subject == "schedule_task") {
    TRY(review_text("the prompt", text_of(payload, "prompt"), limits));
    TRY(review_schedule(text_of(payload, "schedule"), limits, now_ms));
  } else if (subject == "create_periodic_agent") {
    TRY(review_name("the name", text_of(payload, "name")));
    TRY(review_text("the instructions", text_of(payload, "instructions"), limits));
    TRY(review_schedule(text_of(payload, "schedule"), limits, now_ms));
  } else if (subject == "register_group") {
    TRY(review_name("the name", text_of(payload, "name")));
    TRY(review_folder(text_of(payload, "folder")));
    TRY(review_text("the trigger", text_of(payload, "trigger"), limits));
    TRY(review_config(payload.get("config"), limits));
    TRY(review_permissions(payload.get("config"), sender));
  } else if (subject == "deploy") {
    if (!is_commit(text_of(payload, "commit"))) return no("the commit is not a whole SHA in lower case");
    TRY(review_text("the resume prompt", text_of(payload, "resume_prompt"), limits));
  } else {
    return no("the built-in deputy has no review for " + quoted(subject));
  }
  return review_permissions(payload, sender);
}

Status review_paths(std::string_view listing, const policy::DeputyLimits& limits) {
  while (!listing.empty()) {
    const std::size_t end = listing.find('\0');
    const std::string_view path = listing.substr(0, end);
    if (end == std::string_view::npos) {
      return path == "ok\n" ? ok() : Status(no("git could not tell what the commit changes"));
    }
    for (const std::string& pattern : limits.protected_paths) {
      // A pattern without a slash is a name anywhere.
      const bool is_name = pattern.find('/') == std::string::npos;
      if (policy::glob_matches(pattern, path) || (is_name && policy::glob_matches("*/" + pattern, path)) ||
          policy::glob_matches(pattern + "/*", path)) {
        return no("the commit touches the protected path " + quoted(path));
      }
    }
    listing.remove_prefix(end + 1);
  }
  return no("the commit does not exist in the repository");
}

Task<Status> RuleDeputy::check_commit(std::string commit, std::string repository, const Sender& sender) {
  if (repository.empty()) co_return no("no repository is known that the commit could be in");
  // What the commit itself changes, and what is new against what is checked out now; the commits themselves, and
  // nothing that the repository would have us take for them.
  constexpr const char* kScript =
      R"(repository=$1 commit=$2
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/dev/null
g() { git -C "$repository" -c safe.directory=* -c core.fsmonitor=false -c core.commitGraph=false --no-pager "$@"; }
g cat-file -e "$commit^{commit}" && g diff-tree --no-commit-id --root -m -r -z --no-renames --name-only "$commit" &&
if g rev-parse -q --verify HEAD >/dev/null; then g diff --no-ext-diff --no-renames -z --name-only HEAD "$commit"; fi &&
echo ok)";
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) co_return Error::from_errno("cannot make a pipe", errno);
  UniqueFd reading{ends[0]}, writing{ends[1]};
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  const UniqueFd nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  CO_TRY(const auto cell, start_cell_({.argv = {"/usr/bin/sh", "-c", kScript, "review", repository, commit},
                                       .readable = {repository},
                                       .fds = {nothing.get(), writing.get(), nothing.get()},
                                       .lifetime = sender.profile.deputy_limits.timeout}));
  writing.reset();
  CO_TRY(const auto watch, ipc::Watch::open(loop_, std::move(reading)));
  std::string listing;
  std::string block(64U << 10, '\0');
  bool is_late = false;
  const auto timer = loop_.after(sender.profile.deputy_limits.timeout, [&] {
    is_late = true;
    watch->cancel();
  });
  while (listing.size() <= kMaxOutputBytes && co_await watch->readable()) {
    const ssize_t count = ::read(watch->fd(), block.data(), block.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) break;
    listing.append(block.data(), static_cast<std::size_t>(count));
  }
  loop_.cancel(timer);
  if (is_late) co_return no("git took too long");
  if (listing.size() > kMaxOutputBytes) co_return no("the commit changes more than can be reviewed");
  co_return review_paths(listing, sender.profile.deputy_limits);
}

Task<Status> RuleDeputy::check(const Matter& matter, const Sender& sender) {
  wire::Decoder decoder;
  CO_TRY(const wire::Document document, decoder.parse(matter.payload));
  CO_TRY(review_payload(matter.subject, document.root(), sender, clock_.unix_millis()));
  if (matter.subject == "deploy") {
    CO_TRY(co_await check_commit(std::string(text_of(document.root(), "commit")),
                                 repository_of(sender, document.root().get("repository")), sender));
  }
  co_return ok();
}

Task<Verdict> RuleDeputy::review(Matter matter, Sender sender) {
  const Status checked = co_await check(matter, sender);
  Verdict verdict{.kind = Verdict::Kind::approved, .payload = {}, .why = {}, .by = "deputy/rules"};
  if (!checked) {
    verdict.kind = Verdict::Kind::rejected;
    verdict.why = checked.error().message;
  }
  co_return verdict;
}

}  // namespace sallyport::approval

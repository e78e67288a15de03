#include "containers/launch_spec.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "containers/container.h"
#include "os/files.h"
#include "os/paths.h"
#include "policy/made_profiles.h"
#include "policy/net_lists.h"

namespace sallyport::containers {
namespace {

constexpr std::string_view kWorkspace = "${workspace}";
constexpr std::string_view kWorkspaces = "/workspaces/";  // of groups, in the state directory: made to be worked in
constexpr const char* kWildcards = "*?[";
constexpr const char* kConnectInside = "/run/sallyport-connect";

bool has_wildcard(const std::string& path) { return path.find_first_of(kWildcards) != std::string::npos; }

bool is_in_any(const std::string& path, const std::vector<std::string>& places) {
  return std::any_of(places.begin(), places.end(), [&](const std::string& each) { return os::is_within(path, each); });
}

// What a profile's paths are in this machine's terms. A directory is read once, however many of them have their
// wildcards in it.
class Expander {
 public:
  explicit Expander(const LaunchContext& context) : context_(context) {}

  // What has wildcards in the workspace is for the search at launch, which sees every depth and every name; the rest
  // are paths: as they read, and as the kernel takes them where a link precedes "..".
  void deny(sandbox::Spec& spec, const std::string& text) {
    const bool is_anywhere = text.starts_with("**/");
    const std::optional<std::string> path = is_anywhere ? text : anchored(text);
    if (!path) return;
    std::string normal = std::filesystem::path(*path).lexically_normal();
    if (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
    const bool is_in_workspace = !context_.workspace.empty() && normal.starts_with(context_.workspace + "/");
    if (is_anywhere) {
      spec.deny_patterns.push_back(normal);
    } else if (!has_wildcard(text)) {
      spec.deny.push_back(normal);
      if (normal != *path) spec.deny.push_back(*path);
    } else if (is_in_workspace) {
      spec.deny_patterns.push_back(normal.substr(context_.workspace.size() + 1));
    } else {
      append(spec.deny, {text});
    }
  }

  void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
    for (const std::string& path : from) {
      for (std::string& expanded : expand(path)) to.push_back(std::move(expanded));
    }
  }

 private:
  // Several where it has wildcards, none where it speaks of a workspace and there is none.
  std::vector<std::string> expand(const std::string& text) {
    const std::optional<std::string> path = anchored(text);
    if (!path) return {};
    if (!has_wildcard(text)) return {*path};
    const std::size_t name = path->rfind('/') + 1;
    const bool is_deeper = path->find_first_of(kWildcards) < name;
    return is_deeper ? globbed(*path) : matching(path->substr(0, name), path->substr(name));
  }

  std::optional<std::string> anchored(const std::string& text) const {
    if (text == "~" || text.starts_with("~/")) return context_.home + text.substr(1);
    if (!text.starts_with(kWorkspace)) return text;
    if (context_.workspace.empty()) return std::nullopt;
    return context_.workspace + text.substr(kWorkspace.size());
  }

  static std::vector<std::string> globbed(const std::string& pattern) {
    glob_t found{};
    std::vector<std::string> paths;
    if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
      paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    ::globfree(&found);
    return paths;
  }

  std::vector<std::string> matching(const std::string& directory, const std::string& pattern) {
    std::vector<std::string> paths;
    // Most names of a directory differ in the beginning, which takes no fnmatch to see.
    const std::string_view literal = std::string_view(pattern).substr(0, pattern.find_first_of("*?[\\"));
    for (const std::string& name : names_in(directory)) {
      if (!name.starts_with(literal)) continue;
      if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) paths.push_back(directory + name);
    }
    return paths;
  }

  const std::vector<std::string>& names_in(const std::string& directory) {
    const auto [place, is_new] = listings_.try_emplace(directory);
    if (DIR* listing = is_new ? ::opendir(directory.c_str()) : nullptr) {
      while (const dirent* entry = ::readdir(listing)) place->second.emplace_back(entry->d_name);
      ::closedir(listing);
    }
    return place->second;
  }

  const LaunchContext& context_;
  std::map<std::string, std::vector<std::string>> listings_;
};

// DIR/* and DIR/** both mean everything below DIR: the kernel's rule is for a whole tree.
std::string without_stars(const std::string& path) {
  for (const std::string_view stars : {"/**", "/*"}) {
    if (path.ends_with(stars)) return path.substr(0, path.size() - stars.size());
  }
  return path;
}

// Our own: what decides and what records. No command may get at it, whatever it is given.
class OwnPlaces {
 public:
  static OwnPlaces find() {
    OwnPlaces own;
    const auto paths = os::paths_from_environment();
    if (!paths) return own;
    const std::string lists = policy::net_lists_dir(paths->profiles_dir());
    for (const std::string& directory :
         {paths->state_dir, paths->runtime_dir, paths->config_dir, paths->profiles_dir(), lists}) {
      own.places_.push_back({directory, true, os::real_path(directory)});
    }
    for (const std::string& file : {paths->config_file, paths->platform_file()}) {
      own.places_.push_back({file, false, os::real_path(file)});
    }
    return own;
  }

  std::vector<std::string> existing() const {
    std::vector<std::string> reals;
    for (const Place& place : places_) {
      if (place.real) reals.push_back(*place.real);
    }
    return reals;
  }

  // What a sandbox could make in our place: made now, so that it can be hidden. A link that leads there cannot be held.
  Status secure(const std::vector<std::string>& writable) {
    const auto is_open = [&](const std::string& link) {
      const std::string directory = std::filesystem::path(link).parent_path();
      return is_in_any(directory, writable) && !is_in_any(directory, existing());
    };
    for (Place& place : places_) {
      if (place.real == place.path) continue;
      const os::Walk walk = os::follow_links(place.path);
      if (std::any_of(walk.links.begin(), walk.links.end(), is_open)) {
        return Error::make(Code::invalid_params, "a link leads to Sallyport's own " + place.path +
                                                     ", and the sandbox could put another in its place: make "
                                                     "something smaller writable, or the link a directory");
      }
      if (place.real || !place.is_directory || !is_in_any(walk.reached, writable)) continue;
      TRY(os::open_private_directory(place.path));
      for (Place& each : places_) each.real = os::real_path(each.path);  // others may have been waiting for it
    }
    return ok();
  }

 private:
  struct Place {
    std::string path;
    bool is_directory;
    std::optional<std::string> real;  // none: it is not there yet
  };
  std::vector<Place> places_;
};

Result<std::string> check_workspace(const LaunchContext& context, const std::vector<std::string>& own) {
  const auto workspace = os::real_path(context.workspace);
  struct stat info{};
  if (!workspace || ::stat(workspace->c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Error::make(Code::invalid_params, "the workspace is no directory: " + context.workspace);
  }
  if (::faccessat(AT_FDCWD, workspace->c_str(), R_OK | X_OK, AT_EACCESS) != 0) {
    return Error::make(Code::invalid_params, "the workspace is not for this user to read: " + context.workspace);
  }
  const std::string home = os::real_path(context.home).value_or("/");
  if (*workspace == "/" || home == *workspace || home.starts_with(*workspace + "/")) {
    return Error::make(Code::invalid_params, "a workspace must not be a whole home or system (" + *workspace +
                                                 "): change to a directory below, or name one with --workspace");
  }
  for (const std::string& place : own) {
    if (os::is_within(*workspace, place) && !workspace->starts_with(place + std::string(kWorkspaces))) {
      return Error::make(Code::invalid_params, "a workspace must not be one of Sallyport's own directories (" + place +
                                                   "): whoever works there could change what is decided and recorded");
    }
  }
  return *workspace;
}

// Where programs are looked for: the system's places, then those of the caller's own that this sandbox may execute and
// cannot write to, so that tools which are installed in a home are found by their names, and nothing is shadowed.
std::string search_path(const sandbox::Spec& spec, const std::string& of_caller) {
  std::string path = kSystemPath;
  std::vector<std::string> writable = spec.write;
  if (!spec.workspace.empty()) writable.push_back(spec.workspace);
  for (std::size_t at = 0; at <= of_caller.size();) {
    const std::size_t end = std::min(of_caller.find(':', at), of_caller.size());
    const std::string directory = of_caller.substr(at, end - at);
    at = end + 1;
    const bool is_new = (":" + path + ":").find(":" + directory + ":") == std::string::npos;
    const auto real = directory.starts_with('/') && is_new ? os::real_path(directory) : std::nullopt;
    if (!real || is_in_any(directory, writable) || is_in_any(*real, writable)) continue;
    if (is_in_any(directory, spec.exec)) path += ":" + directory;
  }
  return path;
}

std::vector<std::string> make_environment(const policy::Profile& profile, const LaunchContext& context,
                                          const sandbox::Spec& spec) {
  std::map<std::string, std::string> variables = profile.env;
  for (const std::string& name : profile.env_pass) {
    if (const auto value = context.variable(name)) variables.emplace(name, *value);
  }
  variables.emplace("HOME", context.home);
  if (!variables.contains("PATH")) variables.emplace("PATH", search_path(spec, context.variable("PATH").value_or("")));
  std::vector<std::string> environment;
  append_pairs(environment, variables);
  return environment;
}

}  // namespace

Status add_proxy(sandbox::Spec& spec, bool names_loopback) {
  spec.has_proxy = true;
  // ssh itself knows no proxy: this program speaks CONNECT for it.
  TRY(const std::string connect, os::sibling_program("sallyport-connect"));
  spec.binds.push_back({connect, kConnectInside, false, true});
  spec.exec.emplace_back(kConnectInside);
  const std::string proxy = "http://127.0.0.1:" + std::to_string(sandbox::kProxyPort);
  // 127.0.0.1 is the sandbox itself, which is reached without a proxy; unless a rule names it, and with it the host's.
  const std::string local = names_loopback ? "" : "localhost,127.0.0.1,::1";
  const std::string ssh = std::string("ssh -o ProxyCommand='") + kConnectInside + " %h %p'";
  const std::pair<const char*, std::string> variables[] = {
      {"HTTP_PROXY", proxy},
      {"http_proxy", proxy},
      {"HTTPS_PROXY", proxy},
      {"https_proxy", proxy},
      {"ALL_PROXY", proxy},
      {"all_proxy", proxy},
      {"NO_PROXY", local},
      {"no_proxy", local},
      {"NODE_USE_ENV_PROXY", "1"},  // from Node.js 22.21 and 24.5 on
      {"GLOBAL_AGENT_HTTP_PROXY", proxy},
      {"ELECTRON_GET_USE_PROXY", "1"},
      {"npm_config_proxy", proxy},
      {"npm_config_https_proxy", proxy},
      {"npm_config_noproxy", local},
      {"YARN_HTTP_PROXY", proxy},
      {"YARN_HTTPS_PROXY", proxy},
      {"CARGO_HTTP_PROXY", proxy},
      {"CARGO_NET_GIT_FETCH_WITH_CLI", "true"},  // cargo's own git does not know GIT_SSH_COMMAND
      {"GIT_SSH_COMMAND", ssh},
  };
  for (const auto& [name, value] : variables) {
    const std::string head = std::string(name) + "=";
    const bool is_set = std::any_of(spec.environment.begin(), spec.environment.end(),
                                    [&](const std::string& entry) { return entry.starts_with(head); });
    if (!is_set) spec.environment.push_back(head + value);
  }
  return ok();
}

std::string host_home() {
  const std::string home = os::home_directory();
  return home.empty() ? "/" : home;
}

namespace {

bool names_loopback(const std::vector<std::string>& rules) {
  return std::any_of(rules.begin(), rules.end(), [](const std::string& text) {
    const auto rule = policy::NetRule::parse(text);
    if (!rule) return false;
    return rule->host.name == "localhost" ||
           (rule->host.address && policy::special_range(*rule->host.address) == "loopback");
  });
}

// Where what is granted really is; what is not there is not granted either.
std::vector<std::string> real_paths(const std::vector<std::string>& paths, const std::string& workspace) {
  std::vector<std::string> real;
  if (!workspace.empty()) real.push_back(workspace);
  for (const std::string& path : paths) {
    if (auto found = os::real_path(path)) real.push_back(std::move(*found));
  }
  return real;
}

enum class Missing : std::uint8_t { is_left, is_made };

Result<sandbox::Spec> spec_of(const policy::Profile& profile, const LaunchContext& given, Missing missing) {
  LaunchContext context = given;
  OwnPlaces own = OwnPlaces::find();
  if (!context.workspace.empty()) {
    TRY(context.workspace, check_workspace(given, own.existing()));
  }
  sandbox::Spec spec;
  Expander expander(context);
  expander.append(spec.read, profile.fs_read);
  expander.append(spec.write, profile.fs_write);
  const auto take_workspace = [&](std::vector<std::string>& list) {
    return !context.workspace.empty() && std::erase(list, context.workspace) > 0;
  };
  const bool is_read = take_workspace(spec.read);
  spec.is_workspace_writable = take_workspace(spec.write);
  if (is_read || spec.is_workspace_writable) spec.workspace = context.workspace;
  for (const std::string& path : profile.fs_deny) {
    expander.deny(spec, path);
  }
  const std::vector<std::string> written = real_paths(spec.write, spec.is_workspace_writable ? spec.workspace : "");
  const std::vector<std::string> seen = real_paths(spec.read, spec.workspace);
  if (missing == Missing::is_made) TRY(own.secure(written));
  for (const std::string& place : own.existing()) {
    const auto shows = [&](const std::string& granted) { return os::is_within(place, granted); };
    if (std::any_of(seen.begin(), seen.end(), shows) || std::any_of(written.begin(), written.end(), shows)) {
      spec.deny.push_back(place);
    }
  }
  for (const std::string& path : profile.exec) expander.append(spec.exec, {without_stars(path)});
  spec.home = context.home;
  spec.environment = make_environment(profile, context, spec);
  spec.command = profile.command;
  spec.refuse_hard_links = profile.refuse_hard_links;
  spec.use_all_landlock_rights = profile.all_landlock_rights;
  spec.limits = {.memory_bytes = profile.limits.memory,
                 .processes = profile.limits.pids,
                 .cpus = profile.limits.cpu,
                 .open_files = profile.limits.open_files,
                 .file_bytes = profile.limits.file_size,
                 .scratch_bytes = profile.limits.scratch,
                 .duration = profile.limits.duration,
                 .idle = profile.limits.idle};
  if (!profile.net_allow.empty()) TRY(add_proxy(spec, names_loopback(profile.net_allow)));
  if (profile.allow_weak) spec.allow_weak = sandbox::Risk{"profile " + profile.name + " accepts it"};
  return spec;
}

}  // namespace

std::vector<std::string> system_secrets() {
  std::vector<std::string> paths;
  const LaunchContext nowhere;
  Expander(nowhere).append(paths, policy::made_profiles().front().make().fs_deny);
  return paths;
}

Result<sandbox::Spec> make_spec(const policy::Profile& profile, const LaunchContext& context) {
  return spec_of(profile, context, Missing::is_made);
}

Result<sandbox::Spec> show_spec(const policy::Profile& profile, const LaunchContext& context) {
  return spec_of(profile, context, Missing::is_left);
}

}  // namespace sallyport::containers

#include "os/paths.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>

namespace sallyport::os {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The first variable that is set wins; otherwise `fallback`.
Result<std::string> choose(const char* name, std::string fallback) {
  std::string value = variable(name);
  if (value.empty()) value = std::move(fallback);
  if (value[0] != '/') {
    return Error::make(Code::invalid_params, std::string(name) + " must be an absolute path, not '" + value + "'");
  }
  while (value.size() > 1 && value.back() == '/') value.pop_back();
  return value;
}

// Where a login puts sockets; empty if there is none. A foreign one is what `su` leaves behind: its owner could move
// whatever we put there. MCP clients and their kin pass no variable on: the usual place is looked at too, or the
// programs that they start would look for another warden than the user's shell.
Result<std::string> own_xdg_runtime() {
  const std::string path = variable("XDG_RUNTIME_DIR");
  struct stat info{};
  if (!variable("SALLYPORT_RUNTIME_DIR").empty()) return std::string();
  if (path.empty()) {
    const std::string usual = "/run/user/" + std::to_string(::geteuid());
    const bool is_ours = ::stat(usual.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
    return is_ours ? usual : std::string();
  }
  if (::stat(path.c_str(), &info) != 0 || info.st_uid == ::geteuid()) return path;
  return Error::make(Code::invalid_params, "XDG_RUNTIME_DIR (" + path + ") belongs to another user (uid " +
                                               std::to_string(info.st_uid) +
                                               "); unset it, or set SALLYPORT_RUNTIME_DIR to a directory of your own");
}

}  // namespace

bool is_tidy(const std::string& path) {
  const std::string parts = path + "/";
  return path.starts_with('/') && parts.find("//") == std::string::npos && parts.find("/./") == std::string::npos &&
         parts.find("/../") == std::string::npos;
}

// The file itself and not getpwuid: other sources of users would need libraries that a static program lacks.
std::string home_directory() {
  if (std::string home = variable("HOME"); home.starts_with('/')) return home;
  std::string found;
  if (std::FILE* users = std::fopen("/etc/passwd", "re")) {
    while (const passwd* user = ::fgetpwent(users)) {
      if (user->pw_uid == ::geteuid() && found.empty()) found = user->pw_dir;
    }
    std::fclose(users);
  }
  return found;
}

Result<Paths> paths_from_environment() {
  TRY(const std::string xdg_runtime, own_xdg_runtime());
  Paths paths;
  TRY(paths.runtime_dir,
      choose("SALLYPORT_RUNTIME_DIR",
             xdg_runtime.empty() ? "/tmp/sallyport-" + std::to_string(::geteuid()) : xdg_runtime + "/sallyport"));
  const std::string home_dir = home_directory();
  if (home_dir.empty()) return Error::make(Code::invalid_params, "no home directory is known; set HOME");
  const std::string xdg_state = variable("XDG_STATE_HOME");
  TRY(const std::string xdg_config, choose("XDG_CONFIG_HOME", home_dir + "/.config"));
  paths.config_dir = xdg_config + "/sallyport";
  TRY(paths.config_file, choose("SALLYPORT_CONFIG", paths.config_dir + "/sallyport.toml"));
  TRY(paths.state_dir,
      choose("SALLYPORT_STATE_DIR", (xdg_state.empty() ? home_dir + "/.local/state" : xdg_state) + "/sallyport"));
  paths.egress_hosts = variable("SALLYPORT_EGRESS_HOSTS");
  return paths;
}

Result<std::string> sibling_program(const std::string& name) {
  std::string path(PATH_MAX, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length < 0) return Error::from_errno("cannot find this program's own path", errno);
  path.resize(static_cast<std::size_t>(length));
  path.resize(path.rfind('/') + 1);
  path += name;
  if (::access(path.c_str(), X_OK) != 0) return Error::make(Code::not_found, "program " + path + " is missing");
  return path;
}

}  // namespace sallyport::os

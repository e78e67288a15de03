// Where things live, from the environment. See docs/configuration.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sallyport::os {

// The platform's own file, where sallyport.toml has no [platform].
inline std::string platform_file_beside(const std::string& config_file) {
  return config_file.substr(0, config_file.rfind('/') + 1) + "platform.json";
}

struct Paths {
  std::string config_dir;   // $XDG_CONFIG_HOME/sallyport, else ~/.config/sallyport: ours, whichever file is used
  std::string config_file;  // $SALLYPORT_CONFIG, which may lie beside anything, else sallyport.toml there
  std::string state_dir;    // $SALLYPORT_STATE_DIR, else sallyport in $XDG_STATE_HOME, else in ~/.local/state
  // $SALLYPORT_RUNTIME_DIR, else sallyport in $XDG_RUNTIME_DIR or, where that is not set, in /run/user/<uid>; without a
  // login's directory /tmp/sallyport-<uid>.
  std::string runtime_dir;
  // $SALLYPORT_EGRESS_HOSTS: a file like /etc/hosts that the egress proxy asks instead of the machine's resolver.
  std::string egress_hosts;

  std::string platform_file() const { return platform_file_beside(config_file); }
  std::string profiles_dir() const { return config_file.substr(0, config_file.rfind('/')) + "/profiles"; }
  std::string control_socket() const { return runtime_dir + "/warden.sock"; }
  std::string lock_file() const { return runtime_dir + "/warden.lock"; }  // held by the warden; its pid and start time
  std::string loopback_file() const { return runtime_dir + "/warden.json"; }  // address and token of the TCP door
  std::string scan_records() const { return state_dir + "/scans"; }           // see sandbox/scan_record.h
  std::string log_file() const { return state_dir + "/warden.log"; }
};

// INVALID_PARAMS if a variable holds a relative path, XDG_RUNTIME_DIR is needed and another user's, or there is no home
// directory.
Result<Paths> paths_from_environment();

// Whether a path is a directory's or leads to something in it. Textual: both absolute, without dots and last slashes.
inline bool is_within(std::string_view path, std::string_view directory) {
  if (directory == "/") return path.starts_with('/');
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

// The same without the directory itself.
inline bool is_below(std::string_view path, std::string_view directory) {
  return path != directory && is_within(path, directory);
}

// Absolute, and without anything that does not read as it means: empty parts, a last slash, dots.
bool is_tidy(const std::string& path);

// As realpath(3); nothing, and errno, if it leads nowhere.
std::optional<std::string> real_path(const std::string& path);

// What real_path() does, step by step: where it leads, and the links that were followed, each where it really lies.
// What changes meanwhile may be seen as it never was at once: then it is not what real_path() says.
struct Walk {
  std::string reached;
  std::vector<std::string> links;
};
Walk follow_links(const std::string& path);

// $HOME, else what /etc/passwd says; empty if neither does.
std::string home_directory();

// The path of a sibling program: beside this executable, where build and installation both put it.
Result<std::string> sibling_program(const std::string& name);

}  // namespace sallyport::os

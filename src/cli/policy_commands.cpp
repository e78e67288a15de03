// sallyport policy check | show
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "cli/command.h"
#include "containers/launch_spec.h"
#include "policy/profile.h"

namespace sallyport::cli {
namespace {

using policy::Profile;

Status check(const Context& context, const std::string& file) {
  std::ifstream input(file, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(input), {});
  if (!input) return Error::make(Code::io_error, "cannot read " + file);
  TRY(const auto profiles, policy::parse_profiles(text, file));
  if (context.wants_json) {
    print(wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().member("ok", true).key("profiles").begin_array();
      for (const Profile& profile : profiles) json.value(profile.name);
      json.end_array().end_object();
    }));
  } else {
    print(file + ": " + green("ok") + ", " + std::to_string(profiles.size()) + " profiles");
  }
  return ok();
}

std::string join(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& item : list) text += (text.empty() ? "" : " ") + item;
  return text.empty() ? dim("none") : text;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1ULL << 30 && bytes % (1ULL << 30) == 0) return std::to_string(bytes >> 30) + "GiB";
  if (bytes >= 1ULL << 20 && bytes % (1ULL << 20) == 0) return std::to_string(bytes >> 20) + "MiB";
  return std::to_string(bytes);
}

void write_json(wire::JsonWriter& json, const Profile& profile, const sandbox::Spec* spec) {
  const auto strings = [&](const char* name, const std::vector<std::string>& list) {
    json.key(name).begin_array();
    for (const std::string& item : list) json.value(item);
    json.end_array();
  };
  json.begin_object().member("name", profile.name).member("source", profile.source);
  strings("read", spec != nullptr ? spec->read : profile.fs_read);
  strings("write", spec != nullptr ? spec->write : profile.fs_write);
  strings("deny", spec != nullptr ? spec->deny : profile.fs_deny);
  strings("exec", spec != nullptr ? spec->exec : profile.exec);
  strings("net_allow", profile.net_allow);
  strings("methods", profile.methods);
  strings("env_pass", profile.env_pass);
  json.key("env").begin_object();
  for (const auto& [name, value] : profile.env) json.member(name, value);
  json.end_object().key("limits").begin_object();
  json.member("memory", profile.limits.memory).member("pids", profile.limits.pids).member("cpu", profile.limits.cpu);
  json.member("open_files", profile.limits.open_files).member("file_size", profile.limits.file_size);
  json.member("scratch", profile.limits.scratch).member("duration_ms", profile.limits.duration.count());
  json.member("idle_ms", profile.limits.idle.count()).end_object().end_object();
}

void print_text(const Profile& profile, const sandbox::Spec& spec) {
  print("profile    " + profile.name + dim("  (" + profile.source + ")"));
  if (!spec.workspace.empty()) {
    print("workspace  " + spec.workspace + (spec.is_workspace_writable ? "  read-write" : "  read-only"));
  }
  print("read       " + join(spec.read));
  print("write      " + join(spec.write));
  print("deny       " + join(spec.deny) + (spec.deny_names.empty() ? "" : "  and names: " + join(spec.deny_names)));
  print("exec       " + join(spec.exec));
  print("network    " + join(profile.net_allow));
  print("methods    " + join(profile.methods));
  print("env        " + join(spec.environment));
  print("limits     memory " + size_text(profile.limits.memory) + ", " + std::to_string(profile.limits.pids) +
        " processes, files up to " + size_text(profile.limits.file_size) + ", " +
        std::to_string(profile.limits.open_files) + " open files");
}

struct ShowArguments {
  std::string profile, workspace;
};

// Without a name: the list. With one: what it comes to on this machine, links and wildcards resolved.
Status show(const Context& context, const ShowArguments& arguments) {
  TRY(const auto profiles, policy::Profiles::load(context.paths.profiles_dir()));
  if (arguments.profile.empty()) {
    if (context.wants_json) {
      print(wire::to_json([&](wire::JsonWriter& json) {
        json.begin_object().key("profiles").begin_array();
        for (const auto& [name, profile] : profiles.all()) write_json(json, profile, nullptr);
        json.end_array().end_object();
      }));
      return ok();
    }
    for (const auto& [name, profile] : profiles.all()) print(name + dim("  (" + profile.source + ")"));
    return ok();
  }
  const Profile* profile = profiles.find(arguments.profile);
  if (profile == nullptr) return Error::make(Code::not_found, "no profile '" + arguments.profile + "'");
  std::error_code ignored;
  const std::string workspace =
      std::filesystem::absolute(arguments.workspace.empty() ? "." : arguments.workspace, ignored);
  TRY(const sandbox::Spec spec,
      containers::make_spec(*profile, {workspace, containers::host_home(), [](const auto& name) {
                                         const char* value = std::getenv(name.c_str());
                                         return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
                                       }}));
  if (context.wants_json) {
    print(wire::to_json([&](wire::JsonWriter& json) { write_json(json, *profile, &spec); }));
  } else {
    print_text(*profile, spec);
  }
  return ok();
}

}  // namespace

void add_policy_commands(CLI::App& app, Context& context) {
  auto* group = app.add_subcommand("policy", "Check and show profiles");
  group->require_subcommand(1);
  auto* check_command = group->add_subcommand("check", "Check a file of profiles; a fault names line and word");
  const auto file = std::make_shared<std::string>();
  check_command->add_option("FILE", *file, "A TOML file with [profile.NAME] tables")->required();
  on_run(check_command, context, [&context, file] { return check(context, *file); });
  auto* show_command = group->add_subcommand("show", "Show the profiles, or what one comes to here");
  const auto arguments = std::make_shared<ShowArguments>();
  show_command->add_option("--profile", arguments->profile, "The profile");
  show_command->add_option("--workspace", arguments->workspace, "The workspace (default: this directory)");
  on_run(show_command, context, [&context, arguments] { return show(context, *arguments); });
}

}  // namespace sallyport::cli

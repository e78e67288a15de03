#include "containers/groups.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <sstream>

#include "os/files.h"
#include "policy/toml_table.h"
#include "wire/page.h"

namespace sallyport::containers {
namespace {

namespace table = policy::toml_table;

constexpr std::size_t kMaxGroupBytes = 64U << 10;
constexpr std::size_t kMaxGroups = 1'000;
constexpr std::size_t kMaxFaults = 100;  // that are told: more of them say no more
constexpr std::string_view kSuffix = ".toml";

// Names that mean something else wherever a group, a container or a principal can be named.
constexpr std::array<std::string_view, 16> kReserved = {
    "admin",  "all",  "any",  "container", "containers", "default",   "global", "group",
    "groups", "host", "main", "none",      "root",       "sallyport", "self",   "warden"};

bool is_alphanumeric(char c, bool allows_capitals) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (allows_capitals && c >= 'A' && c <= 'Z');
}

// What a container has mounted: it may have changed the mode, which the private parent makes harmless.
Status ensure_directory(const std::string& parent, const std::string& name) {
  TRY(const UniqueFd directory, os::open_private_directory(parent));
  if (::mkdirat(directory.get(), name.c_str(), 0700) == 0) return ok();
  struct stat info{};
  if (errno != EEXIST || ::fstatat(directory.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISDIR(info.st_mode)) {
    return Error::make(Code::conflict, "the group's directory cannot be made", parent + "/" + name);
  }
  return ok();
}

table::Setter text(std::string& target, std::size_t most) {
  return [&target, most](const toml::node& node) -> std::optional<std::string> {
    const auto value = node.value_exact<std::string>();
    if (!value || value->size() > most) return "must be text of at most " + std::to_string(most) + " bytes";
    target = *value;
    return std::nullopt;
  };
}

}  // namespace

Status check_group_name(std::string_view name) { return check_name("a group's", name); }

Status check_name(std::string_view whose, std::string_view name) {
  const bool is_plain =
      !name.empty() && name.size() <= 48 && is_alphanumeric(name[0], false) &&
      std::all_of(name.begin(), name.end(), [](char c) { return is_alphanumeric(c, false) || c == '-' || c == '_'; });
  if (!is_plain) {
    return Error::make(Code::invalid_params,
                       std::string(whose) + " name is 1 to 48 of a-z 0-9 - _, beginning with a letter or digit");
  }
  if (std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end()) {
    return Error::make(Code::invalid_params, "'" + std::string(name) + "' is reserved; choose another name");
  }
  return ok();
}

Status check_group_folder(std::string_view folder) {
  const bool is_plain = !folder.empty() && folder.size() <= 64 && is_alphanumeric(folder[0], true) &&
                        std::all_of(folder.begin(), folder.end(), [](char c) {
                          return is_alphanumeric(c, true) || c == '.' || c == '-' || c == '_';
                        });
  if (is_plain) return ok();
  return Error::make(Code::invalid_params,
                     "a group's folder is one name of A-Z a-z 0-9 . - _, beginning with a letter or digit; "
                     "it cannot lead anywhere else");
}

std::string to_toml(const Group& group) {
  toml::table settings;
  for (const auto& [key, value] : group.settings) settings.insert(key, value);
  toml::table root{{"name", group.name},
                   {"profile", group.profile},
                   {"overrides", group.overrides},
                   {"folder", group.folder},
                   {"trigger", group.trigger},
                   {"created_by", group.created_by},
                   {"created", group.created_unix_ms},
                   {"key", group.key},
                   {"settings", settings}};
  std::ostringstream out;
  // Control characters as escapes, on one line each.
  out << toml::toml_formatter(root, toml::format_flags::none) << '\n';
  return out.str();
}

Result<Group> parse_group(std::string_view content, const std::string& path) {
  TRY(const toml::table root, table::parse(content, path));
  Group group;
  const table::Setters setters = {
      {"name", text(group.name, 48)},
      {"profile", text(group.profile, 64)},
      {"overrides", text(group.overrides, 16U << 10)},
      {"folder", text(group.folder, 64)},
      {"trigger", text(group.trigger, 256)},
      {"created_by", text(group.created_by, 64)},
      {"created", table::integer(0, INT64_MAX, [&](std::int64_t value) { group.created_unix_ms = value; })},
      {"key", text(group.key, 256)},
      {"settings", table::string_map(group.settings)},
  };
  TRY(table::read(path, "group", root, setters));
  const auto check = [&](const char* key, const Status& status) -> Status {
    if (status) return ok();
    const toml::node* node = root.get(key);
    return table::fault(path, node != nullptr ? node->source() : root.source(), status.error().message);
  };
  TRY(check("name", check_group_name(group.name)));
  TRY(check("folder", check_group_folder(group.folder)));
  if (group.profile.empty()) return table::fault(path, root.source(), "'profile' is missing");
  return group;
}

void describe(wire::JsonWriter& json, const Group& group) {
  json.member("group", group.name).member("profile", group.profile).member("folder", group.folder);
  json.member("trigger", group.trigger).member("created_by", group.created_by);
  json.member("created", group.created_unix_ms).key("settings").begin_object();
  for (const auto& [key, value] : group.settings) json.member(key, value);
  json.end_object();
}

void describe_page(wire::JsonWriter& json, const Groups& groups, std::string_view after) {
  wire::write_page(json, "groups", groups.all(), after, [&](const auto& each) {
    json.begin_object();
    describe(json, each.second);
    json.end_object();
  });
  json.key("faults").begin_array();
  for (const std::string& fault : groups.faults()) json.value(fault);
  json.end_array();
}

Status Groups::refresh() {
  TRY(os::open_private_directory(directory()));
  std::map<std::string, Group, std::less<>> groups;
  std::vector<std::string> faults;
  std::error_code fault;
  for (std::filesystem::directory_iterator next(directory(), fault), end; !fault && next != end;
       next.increment(fault)) {
    const auto& entry = *next;
    const std::string file = entry.path().filename();
    if (!file.ends_with(kSuffix) || file.starts_with(".")) continue;
    if (groups.size() == kMaxGroups) {
      faults.push_back("there are more than " + std::to_string(kMaxGroups) + " groups; the rest is left out");
      break;
    }
    const auto content = os::read_private_file(entry.path(), kMaxGroupBytes);
    auto group = content ? parse_group(*content, entry.path()) : Result<Group>(content.error());
    if (group && group->name + std::string(kSuffix) != file) {
      group = Error::make(Code::invalid_params, entry.path().string() + ": 'name' and the file's name differ");
    }
    if (group) {
      std::string name = group->name;
      groups.emplace(std::move(name), std::move(*group));
    } else if (faults.size() < kMaxFaults) {
      faults.push_back(group.error().message);
    }
  }
  if (fault) return Error::from_errno("cannot read the groups", fault.value());
  groups_ = std::move(groups);
  faults_ = std::move(faults);
  return ok();
}

Status Groups::check(const Group& group) const {
  TRY(check_group_name(group.name));
  TRY(check_group_folder(group.folder));
  for (const auto& [name, other] : groups_) {
    if (name == group.name && !group.key.empty() && other.key == group.key) return ok();
    if (name == group.name) return Error::make(Code::conflict, "a group of this name exists");
    if (other.folder == group.folder) return Error::make(Code::conflict, "another group has this folder");
  }
  // A faulty record keeps its name: nobody gets a session by spoiling a file.
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path_of(group.name), ignored))) {
    return Error::make(Code::conflict, "a group of this name exists");
  }
  if (groups_.size() >= kMaxGroups) return Error::make(Code::quota_exceeded, "there are too many groups");
  // What could not be read again would be gone with the next refresh.
  const std::string record = to_toml(group);
  if (record.size() > kMaxGroupBytes || !parse_group(record, path_of(group.name))) {
    return Error::make(Code::payload_too_large, "the group's settings are too large for its record");
  }
  return ok();
}

Result<Group> Groups::add(Group group) {
  TRY(check(group));
  if (const Group* known = find(group.name)) return *known;
  TRY(os::open_private_directory(directory()));
  TRY(os::write_private_file(path_of(group.name), to_toml(group)));
  groups_.emplace(group.name, group);
  TRY(session_dir(group.name));
  TRY(workspace_dir(group.name));
  return group;
}

const Group* Groups::find(std::string_view name) const {
  const auto found = groups_.find(name);
  return found == groups_.end() ? nullptr : &found->second;
}

Result<std::string> Groups::session_dir(std::string_view name) const {
  const Group* group = find(name);
  if (group == nullptr) return Error::make(Code::not_found, "no such group");
  const std::string parent = directory() + "/" + group->name;
  TRY(ensure_directory(parent, "session"));
  return parent + "/session";
}

Result<std::string> Groups::workspace_dir(std::string_view name) const {
  const Group* group = find(name);
  if (group == nullptr) return Error::make(Code::not_found, "no such group");
  const std::string parent = state_dir_ + "/workspaces";
  TRY(ensure_directory(parent, group->folder));
  return parent + "/" + group->folder;
}

}  // namespace sallyport::containers

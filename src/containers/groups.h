// Groups: named, lasting records of who runs in which profile, with a session that outlasts their containers.
//
// `groups/<name>.toml` in the state directory is the record: written atomically by register_group, or by the
// host's own hand. `groups/<name>/session` is mounted at /run/sallyport/session of every container of the
// group; `workspaces/<folder>` is where they work. Nothing of it but these two is ever seen from inside.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "wire/json.h"

namespace sallyport::containers {

struct Group {
  std::string name;
  std::string profile;
  std::string overrides;  // of the profile, as in containers::Config
  std::string folder;     // of its workspace: one plain name
  std::string trigger;    // what the group answers to; the host's business
  std::map<std::string, std::string> settings;
  std::string created_by;  // a container, or empty for the host's own
  std::string key;         // of the request that made it
  std::int64_t created_unix_ms = 0;
};

// a-z 0-9 - _, beginning with a letter or digit, at most 48; and none that the system uses itself.
Status check_group_name(std::string_view name);
// The same for other things that are named so; `whose` begins the sentence that says what is wrong.
Status check_name(std::string_view whose, std::string_view name);
// One path component of A-Z a-z 0-9 . - _, beginning with a letter or digit, at most 64.
Status check_group_folder(std::string_view folder);

// The TOML of a record, and back. Faults name file, line, column and word.
std::string to_toml(const Group& group);
Result<Group> parse_group(std::string_view text, const std::string& path);

// For answers and events.
void describe(wire::JsonWriter& json, const Group& group);
class Groups;
// The members of a page (see wire::write_page) `groups`, of those behind `after`, and `faults`: why others cannot be
// read.
void describe_page(wire::JsonWriter& json, const Groups& groups, std::string_view after);

class Groups {
 public:
  explicit Groups(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  // Reads all records. One that is faulty is left out, and named in faults(): unknown means no.
  Status refresh();
  const std::vector<std::string>& faults() const { return faults_; }

  // Makes it durable, with its directories. The same key again: the group as it is. CONFLICT if the name or
  // the folder is another's.
  Result<Group> add(Group group);
  // Whether it would: the same errors.
  Status check(const Group& group) const;

  const Group* find(std::string_view name) const;
  const std::map<std::string, Group, std::less<>>& all() const { return groups_; }

  // The host's directories of a group, made if absent. NOT_FOUND for an unknown one.
  Result<std::string> session_dir(std::string_view name) const;
  Result<std::string> workspace_dir(std::string_view name) const;

 private:
  std::string directory() const { return state_dir_ + "/groups"; }
  std::string path_of(const std::string& name) const { return directory() + "/" + name + ".toml"; }

  std::string state_dir_;
  std::map<std::string, Group, std::less<>> groups_;
  std::vector<std::string> faults_;
};

}  // namespace sallyport::containers

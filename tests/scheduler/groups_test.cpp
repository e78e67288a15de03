// Records of groups, and emptying a session under somebody's hands.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "containers/empty_directory.h"
#include "containers/groups.h"
#include "os/files.h"
#include "policy/within.h"
#include "support/daemon.h"

namespace sallyport::containers {
namespace {

namespace fs = std::filesystem;
using ::sallyport::testing::TemporaryDirectory;

Group family() {
  Group group;
  group.name = "family";
  group.profile = "default";
  group.folder = "family-chat";
  group.trigger = "@andy \"quoted\" \\ \x01 \xe2\x80\xae";
  group.settings = {{"tone", "kind\nand short"}};
  group.created_by = "c-1";
  group.key = "key-1";
  return group;
}

TEST(Groups, SurviveInTheirFiles) {
  const TemporaryDirectory state;
  Groups groups(state.path());
  ASSERT_TRUE(groups.refresh());
  ASSERT_TRUE(groups.add(family()));
  Groups later(state.path());
  ASSERT_TRUE(later.refresh());
  const Group* found = later.find("family");
  ASSERT_NE(found, nullptr) << (later.faults().empty() ? "" : later.faults()[0]);
  EXPECT_EQ(found->trigger, family().trigger);
  EXPECT_EQ(found->settings, family().settings);
  EXPECT_EQ(*later.session_dir("family"), state.path() + "/groups/family/session");
  EXPECT_TRUE(fs::is_directory(*later.workspace_dir("family")));
  EXPECT_FALSE(later.session_dir("other"));
}

TEST(Groups, TheSameKeyMakesNoSecondOne) {
  const TemporaryDirectory state;
  Groups groups(state.path());
  ASSERT_TRUE(groups.refresh());
  ASSERT_TRUE(groups.add(family()));
  EXPECT_TRUE(groups.add(family()));
  Group other = family();
  other.key = "key-2";
  EXPECT_EQ(groups.add(other).error().code, Code::conflict);
  other.name = "second";
  EXPECT_EQ(groups.add(other).error().code, Code::conflict);  // the folder is taken
  other.folder = "second";
  EXPECT_TRUE(groups.add(other));
}

TEST(Groups, AttackPathTraversalInANameOrFolder) {
  for (const char* name : {"", "..", "../x", "a/b", "/etc", ".hidden", "-x", "A", "a b", "a\n", "a.toml", "\xc3\xa4"}) {
    EXPECT_FALSE(check_group_name(name)) << name;
  }
  for (const char* folder : {"", ".", "..", "../x", "a/b", "/etc", ".ssh", "a\\b/", "~", "a b", "${workspace}"}) {
    EXPECT_FALSE(check_group_folder(folder)) << folder;
  }
  EXPECT_FALSE(check_group_name(std::string(49, 'a')));
  EXPECT_TRUE(check_group_folder("Family-Chat_1.2"));
}

TEST(Groups, AttackReservedNames) {
  for (const char* name : {"host", "warden", "default", "admin", "global", "sallyport"}) {
    EXPECT_FALSE(check_group_name(name)) << name;
  }
}

TEST(Groups, AFaultyRecordIsNamedAndKeepsItsName) {
  const TemporaryDirectory state;
  Groups groups(state.path());
  ASSERT_TRUE(groups.refresh());
  const auto write = [&](const std::string& name, const std::string& text) {
    ASSERT_TRUE(os::write_private_file(state.path() + "/groups/" + name, text));
  };
  write("good.toml", "name = \"good\"\nprofile = \"default\"\nfolder = \"good\"\n");
  write("family.toml", "name = \"family\"\nprofile = \"default\"\nfolder = \"../../etc\"\n");
  write("liar.toml", "name = \"good\"\nprofile = \"default\"\nfolder = \"liar\"\n");
  write("odd.toml", "name = \"odd\"\nprofile = \"default\"\nfolder = \"odd\"\nadmin = true\n");
  ASSERT_TRUE(groups.refresh());
  EXPECT_EQ(groups.all().size(), 1U);
  ASSERT_EQ(groups.faults().size(), 3U);
  std::string all;
  for (const std::string& fault : groups.faults()) all += fault + "\n";
  EXPECT_NE(all.find("family.toml:3:10: a group's folder"), std::string::npos) << all;
  EXPECT_NE(all.find("odd.toml:4:1: unknown key 'admin'"), std::string::npos) << all;
  EXPECT_NE(all.find("liar.toml: 'name' and the file's name differ"), std::string::npos) << all;
  EXPECT_EQ(groups.add(family()).error().code, Code::conflict);
}

TEST(Groups, WhatCouldNotBeReadAgainIsRefused) {
  const TemporaryDirectory state;
  Groups groups(state.path());
  ASSERT_TRUE(groups.refresh());
  Group group = family();
  // One byte each in a message, six in the record.
  for (int i = 0; i < 32; ++i) group.settings["s" + std::to_string(i)] = std::string(1024, '\x7f');
  const auto refused = groups.add(group);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::payload_too_large);
  EXPECT_EQ(refused.error().message.find(state.path()), std::string::npos);
  group.settings.clear();
  group.overrides = std::string(20'000, ' ');
  EXPECT_FALSE(groups.add(group));
  EXPECT_TRUE(groups.add(family()));
}

// ---- within ----

TEST(Within, NamesWhatIsWider) {
  const auto profiles = policy::parse_profiles(R"(
[profile.own]
fs.read = ["/usr"]
fs.write = ["${workspace}"]
fs.deny = ["**/*.pem"]
exec = ["/usr/bin/*"]
methods = ["fs.*"]
limits = { memory = "1GiB" }
net.allow = ["*.example.org"]
net.deny = ["secret.example.org"]
net.limits = { bytes = "1MiB" }
env = { PATH = "/usr/bin" }
fs.refuse_hard_links = true
[profile.narrow]
fs.refuse_hard_links = true
env = { PATH = "/usr/bin" }
net.allow = ["*.example.org"]
net.deny = ["secret.example.org", "other.example.org"]
net.limits = { bytes = "1KiB" }
fs.read = ["/usr/share", "${workspace}"]
fs.deny = ["**/*.pem", "**/.env"]
exec = ["/usr/bin/git"]
methods = ["fs.read"]
limits = { memory = "512MiB" }
[profile.reads]
fs.read = ["/usr", "/etc"]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
[profile.beside]
fs.read = ["/usr2"]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
[profile.undenied]
limits = { memory = "1GiB" }
[profile.calls]
fs.deny = ["**/*.pem"]
methods = ["*"]
limits = { memory = "1GiB" }
[profile.large]
fs.deny = ["**/*.pem"]
[profile.weak]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
fs.refuse_hard_links = true
allow_weak = true
[profile.undenied_net]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
net.allow = ["*.example.org"]
net.limits = { bytes = "1MiB" }
[profile.unlimited_net]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
net.allow = ["*.example.org"]
net.deny = ["secret.example.org"]
[profile.reviewed]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
deputy = ["/usr/bin/true"]
[profile.easy]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
deputy_limits = { prompt_length = 100000 }
[profile.tenant]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
[profile.tenant.permissions.adapters]
storage = { buckets = ["history"] }
[profile.env]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
env = { PATH = "/usr/bin", TOKEN = "of another" }
[profile.links]
fs.deny = ["**/*.pem"]
limits = { memory = "1GiB" }
)",
                                               "test.toml");
  ASSERT_TRUE(profiles) << profiles.error().message;
  std::map<std::string, policy::Profile> by_name;
  for (const auto& profile : *profiles) by_name.emplace(profile.name, profile);
  const policy::Profile& own = by_name.at("own");
  EXPECT_TRUE(policy::check_within(own, own, {}));
  EXPECT_TRUE(policy::check_within(by_name.at("narrow"), own, {}));
  for (const auto& [name, key] : std::map<std::string, std::string>{{"reads", "fs.read"},
                                                                    {"beside", "fs.read"},
                                                                    {"undenied", "fs.deny"},
                                                                    {"calls", "methods"},
                                                                    {"large", "limits"},
                                                                    {"undenied_net", "net.deny, net.limits"},
                                                                    {"unlimited_net", "net.deny, net.limits"},
                                                                    {"reviewed", "deputy, deputy_limits"},
                                                                    {"easy", "deputy, deputy_limits"},
                                                                    {"tenant", "permissions.adapters"},
                                                                    {"env", "env"},
                                                                    {"links", "fs.refuse_hard_links"},
                                                                    {"weak", "allow_weak"}}) {
    const Status within = policy::check_within(by_name.at(name), own, {});
    ASSERT_FALSE(within) << name;
    EXPECT_EQ(within.error().code, Code::policy_denied);
    EXPECT_NE(within.error().message.find("(" + key + ")"), std::string::npos) << within.error().message;
  }
}

TEST(Within, WhatRulesForAllDemandOfAProfileIsNotShed) {
  policy::Profile own, other;
  own.name = "own";
  other.name = "other";
  const auto is_within = [&](const std::string& rule) {
    const auto rules = policy::parse_rules("[[rule]]\nname = \"r\"\nmatch = [\"deploy\"]\n" + rule, "test.toml");
    EXPECT_TRUE(rules) << rules.error().message;
    return rules && policy::check_within(other, own, *rules).has_value();
  };
  EXPECT_FALSE(is_within("profile = [\"own\"]\neffect = \"deny\""));
  EXPECT_FALSE(is_within("profile = [\"own\"]\nrate = \"1/h\""));
  EXPECT_FALSE(is_within("profile = [\"other\"]\neffect = \"allow\""));
  EXPECT_TRUE(is_within("profile = [\"own\", \"other\"]\neffect = \"deny\""));
  EXPECT_TRUE(is_within("profile = [\"other\"]\neffect = \"deny\""));
  EXPECT_TRUE(is_within("profile = [\"own\"]\neffect = \"allow\""));
  EXPECT_TRUE(is_within("profile = [\"third\"]\neffect = \"deny\""));
  EXPECT_TRUE(is_within("effect = \"deny\""));
}

TEST(Within, ADirectoryIsMoreThanTheNamesInItThatAreNotHidden) {
  const auto is_within = [](const std::string& wanted, const std::string& own) {
    policy::Profile inner, outer;
    inner.fs_read = {wanted};
    outer.fs_read = {own};
    const bool is_read = policy::check_within(inner, outer, {}).has_value();
    std::swap(inner.fs_read, inner.fs_write);
    std::swap(outer.fs_read, outer.fs_write);
    EXPECT_EQ(policy::check_within(inner, outer, {}).has_value(), is_read) << wanted << " in " << own;
    return is_read;
  };
  EXPECT_FALSE(is_within("${workspace}", "${workspace}/*"));
  EXPECT_FALSE(is_within("/data", "/data/**"));
  EXPECT_FALSE(is_within("/data/.hidden", "/data/*"));
  EXPECT_FALSE(is_within("/data/x", "/data/[a-z]"));
  EXPECT_FALSE(is_within("/data/../etc", "/data"));
  EXPECT_FALSE(is_within("/database", "/data"));
  EXPECT_TRUE(is_within("/data/*", "/data/*"));
  EXPECT_TRUE(is_within("/data/*", "/data"));
  EXPECT_TRUE(is_within("/data/x/y", "/data"));
  EXPECT_TRUE(is_within("/data", "/data"));
}

// ---- emptying ----

class EmptyDirectory : public ::testing::Test {
 protected:
  std::string path(const std::string& below = "") const { return root_.path() + "/session" + below; }
  void SetUp() override { fs::create_directories(path()); }
  void write(const std::string& below) const { std::ofstream(path(below)) << "x"; }

  Result<Emptied> empty() {
    std::optional<Result<Emptied>> result;
    const auto wait = [&]() -> Fire {
      result = co_await empty_directory(loop_, path());
      loop_.stop();
    };
    loop_.post([&] { wait(); });
    loop_.run();
    return *result;
  }

  TemporaryDirectory root_;
  ipc::Loop loop_;
};

TEST_F(EmptyDirectory, AttackNamesThatAreInTheWayOfWhatIsTooDeep) {
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += "/d";
  for (int i = 0; i < 200; ++i) fs::create_directories(path("/.reset-" + std::to_string(i) + deep));
  const auto emptied = empty();
  ASSERT_TRUE(emptied);
  EXPECT_TRUE(emptied->is_complete);
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(EmptyDirectory, RemovesEverythingButItself) {
  fs::create_directories(path("/a/b/c"));
  for (int i = 0; i < 600; ++i) write("/a/" + std::to_string(i));
  write("/.hidden");
  write("/a/b/c/deep");
  const auto emptied = empty();
  ASSERT_TRUE(emptied);
  EXPECT_TRUE(emptied->is_complete);
  EXPECT_EQ(emptied->removed, 605U);
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(EmptyDirectory, AttackLinksLeadNowhere) {
  fs::create_directories(root_.path() + "/precious/inner");
  std::ofstream(root_.path() + "/precious/file") << "kept";
  fs::create_symlink(root_.path() + "/precious", path("/link"));
  fs::create_symlink("../precious", path("/relative"));
  fs::create_symlink("/", path("/root"));
  fs::create_hard_link(root_.path() + "/precious/file", path("/hard"));
  ASSERT_EQ(::mkfifo(path("/fifo").c_str(), 0600), 0);
  const auto emptied = empty();
  ASSERT_TRUE(emptied && emptied->is_complete);
  EXPECT_TRUE(fs::is_empty(path()));
  EXPECT_TRUE(fs::exists(root_.path() + "/precious/file"));
  EXPECT_TRUE(fs::exists(root_.path() + "/precious/inner"));
}

TEST_F(EmptyDirectory, AttackATreeDeeperThanDescriptorsGo) {
  UniqueFd at{::open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  for (int i = 0; i < 1200; ++i) {
    ASSERT_EQ(::mkdirat(at.get(), "d", 0700), 0);
    at = UniqueFd(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  const auto emptied = empty();
  ASSERT_TRUE(emptied);
  EXPECT_TRUE(emptied->is_complete);
  EXPECT_TRUE(fs::is_empty(path()));
}

TEST_F(EmptyDirectory, AttackDirectoriesThatMayNotBeEntered) {
  const int status = ::sallyport::testing::in_child([&] {
    // As an ordinary user: root is never refused.
    if (::geteuid() == 0) {
      if (::chown(root_.path().c_str(), 65534, 65534) != 0 || ::chown(path().c_str(), 65534, 65534) != 0) return 2;
      if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 3;
    }
    fs::create_directories(path("/locked/inner"));
    write("/locked/inner/file");
    ::chmod(path("/locked/inner").c_str(), 0);
    ::chmod(path("/locked").c_str(), 0);
    ::chmod(path().c_str(), 0500);
    ipc::Loop loop;
    std::optional<Result<Emptied>> result;
    const auto wait = [&]() -> Fire {
      result = co_await empty_directory(loop, path());
      loop.stop();
    };
    loop.post([&] { wait(); });
    loop.run();
    return *result && (*result)->is_complete && fs::is_empty(path()) ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
}

TEST_F(EmptyDirectory, AttackSomebodyWhoKeepsRenamingAndFilling) {
  fs::create_directories(root_.path() + "/precious");
  std::ofstream(root_.path() + "/precious/file") << "kept";
  std::atomic<bool> is_over = false;
  std::thread attacker([&] {
    for (int i = 0; !is_over; ++i) {
      const std::string name = path("/d" + std::to_string(i % 7));
      ::mkdir(name.c_str(), 0700);
      ::symlink("../precious", (name + "/l").c_str());
      ::rename(name.c_str(), path("/moved").c_str());
      ::rmdir(path("/moved").c_str());
      ::symlink((root_.path() + "/precious").c_str(), name.c_str());
      ::unlink(name.c_str());
    }
  });
  // Complete or not: it ends, and nothing outside is touched.
  for (int round = 0; round < 20; ++round) EXPECT_TRUE(empty());
  is_over = true;
  attacker.join();
  EXPECT_TRUE(fs::exists(root_.path() + "/precious/file"));
  EXPECT_TRUE(empty()->is_complete);
}

}  // namespace
}  // namespace sallyport::containers

// A `sallyport run` beside a warden: what is recorded of it, what reaches it, and what it says.
#include <unistd.h>

#include <csignal>

#include "e2e/site.h"

namespace sallyport::testing {
namespace {

class EgressRunWarden : public EgressRun {
 protected:
  ~EgressRunWarden() override { shell(cli() + "down"); }

  std::string cli() const { return environment() + SALLYPORT_CLI " "; }
  // In the background; what it says goes to a file.
  pid_t start(const std::string& options, const std::string& script) {
    site_.write("project/script", script);
    const Ran started = shell("cd " + site_.project() + " && " + "{ " + cli() + "run " + options +
                              " -- timeout 100 sh script >../said 2>&1 & echo $!; }");
    return std::stoi(started.output);
  }
  bool is_there(const std::string& name) const { return std::filesystem::exists(site_.project() + "/" + name); }
  std::string said() const { return shell("cat " + site_.root() + "/said").output; }
  std::string records() const { return shell(cli() + "--json audit query --method egress.connect").output; }
  void write_profile(const std::string& net) const {
    std::filesystem::create_directories(site_.root() + "/profiles");
    site_.write("profiles/net.toml",
                "[profile.net]\nfs.read = [\"/usr\", \"/etc\"]\nfs.write = [\"${workspace}\"]\nexec = [\"/usr/**\"]\n"
                "methods = []\nenv = { PATH = \"/usr/bin:/bin\" }\n" +
                    net + "\n");
  }
  std::string site_rules() const {
    return "net.allow = [\"web.test:" + site_.http + "\", \"127.0.0.1:" + site_.http + "\"]";
  }
  // Waits for NAME, then asks until the answer has this in it, and leaves it in NAME.answer.
  std::string on(const std::string& name, const std::string& wanted = "hello from the site") const {
    return "while [ ! -e " + name + " ]; do sleep 0.1; done\nuntil curl -sS -m 20 " + plain() + "/hello > " + name +
           ".new 2>&1; grep -q '" + wanted + "' " + name + ".new; do sleep 0.1; done; mv " + name + ".new " + name +
           ".answer\n";
  }
  std::string answer(const std::string& name) const {
    site_.write("project/" + name, "");
    EXPECT_TRUE(eventually([&] { return is_there(name + ".answer"); })) << said();
    return shell("cat " + site_.project() + "/" + name + ".answer").output;
  }
};

TEST_F(EgressRunWarden, ItsConnectionsAreRecordedOneByOneAndAtOnce) {
  ASSERT_EQ(shell(cli() + "up").status, 0);
  const pid_t pid = start(site_options(), "curl -sS " + plain() + "/hello; curl -sS " + plain() +
                                              "/hello; curl -sS -p http://evil.test/x\ntouch asked\nsleep 100");
  ASSERT_TRUE(eventually([&] { return is_there("asked"); }));
  std::string found;
  const auto count = [&](const std::string& part) {
    std::size_t times = 0;
    for (std::size_t at = found.find(part); at != std::string::npos; at = found.find(part, at + 1)) ++times;
    return times;
  };
  const std::string rule = "net.allow web.test:" + site_.http;
  EXPECT_TRUE(eventually([&] {
    found = records();
    return has(found, "evil.test:80") && count(rule) >= 4;
  })) << found;
  EXPECT_EQ(count(rule), 4U) << "two decisions and two outcomes: " << found;
  EXPECT_TRUE(has(shell(cli() + "--json container ls").output, "container")) << "it runs";
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_EQ(count(rule), 4U);
  EXPECT_TRUE(has(records(), "evil.test:80")) << "and they stay";
}

TEST_F(EgressRunWarden, AQuotaIsRecordedAsOne) {
  write_profile(site_rules() + "\nnet.limits = { requests = 1 }");
  ASSERT_EQ(shell(cli() + "up").status, 0);
  const Ran ran = run("--profile net", "curl -sS " + plain() + "/hello; curl -sS " + plain() + "/hello");
  EXPECT_TRUE(has(ran.output, "hello from the site\n")) << ran.output;
  EXPECT_TRUE(has(ran.output, "has used its 1 requests")) << ran.output;
  EXPECT_TRUE(has(records(), "QUOTA_EXCEEDED")) << records();
}

TEST_F(EgressRunWarden, AWardenThatEndsMeanwhileIsNotMissedSilently) {
  ASSERT_EQ(shell(cli() + "up").status, 0);
  start(site_options(), on("first") + on("second") + "touch over");
  EXPECT_EQ(answer("first"), "hello from the site\n");
  ASSERT_EQ(shell(cli() + "down").status, 0);
  EXPECT_EQ(answer("second"), "hello from the site\n") << "a run needs no warden";
  EXPECT_TRUE(eventually([&] { return has(said(), "are not in its audit"); })) << said();
}

TEST_F(EgressRunWarden, AReloadReachesItAndAFaultDeniesItAll) {
  write_profile(site_rules());
  ASSERT_EQ(shell(cli() + "up").status, 0);
  start("--profile net --allow-net other.test:" + site_.http,
        on("first") + on("second", "no rule of net.allow names it") + on("third", "has a fault") + on("fourth"));
  EXPECT_EQ(answer("first"), "hello from the site\n");
  write_profile("net.allow = [\"somebody.test\"]");
  ASSERT_EQ(shell(cli() + "call warden.reload").status, 0);
  EXPECT_TRUE(has(answer("second"), "no rule of net.allow names it"));
  write_profile("net.allow = [\"*\"]");
  const Ran failed = shell(cli() + "call warden.reload");
  EXPECT_NE(failed.status, 0);
  EXPECT_TRUE(has(failed.output, "the network is denied to all containers")) << failed.output;
  EXPECT_TRUE(has(shell(cli() + "status").output, "the network is denied to all containers"));
  EXPECT_TRUE(has(answer("third"), "has a fault"));
  write_profile(site_rules());
  ASSERT_EQ(shell(cli() + "call warden.reload").status, 0);
  EXPECT_FALSE(has(shell(cli() + "status").output, "denied"));
  EXPECT_EQ(answer("fourth"), "hello from the site\n");
}

TEST_F(EgressRunWarden, InspectShowsItsConnections) {
  ASSERT_EQ(shell(cli() + "up").status, 0);
  start(site_options(), on("first") + "sleep 100");
  EXPECT_EQ(answer("first"), "hello from the site\n");
  std::string shown;
  EXPECT_TRUE(eventually([&] {
    const std::string all = shell(cli() + "--json container ls").output;
    const std::size_t at = all.find("\"container\":\"");
    if (at == std::string::npos) return false;
    const std::string id = all.substr(at + 13, all.find('"', at + 13) - at - 13);
    shown = shell(cli() + "call container.inspect '{\"container\":\"" + id + "\"}'").output;
    return has(shown, R"("host":"web.test")");
  })) << shown;
}

TEST_F(EgressRunWarden, AFloodOfRefusalsHidesNoHost) {
  const Ran ran = run("",
                      "for i in 1 2 3; do curl -sS --parallel --parallel-max 50 -o /dev/null "
                      "'http://noise.test/[1-100]'; done 2>/dev/null\ncurl -sS -o /dev/null http://target.test/");
  EXPECT_TRUE(has(ran.output, "noise.test:80 (300 times)")) << ran.output;
  EXPECT_TRUE(has(ran.output, "target.test:80")) << ran.output;
}

TEST_F(EgressRunWarden, AConnectionThatALimitCutIsNamed) {
  site_.write("site/big", std::string(3 << 20, 'b'));
  write_profile(site_rules() + "\nnet.limits = { bytes = \"1MiB\" }");
  ASSERT_EQ(shell(cli() + "up").status, 0);
  const Ran ran = run("--profile net", "curl -sS -o /dev/null " + plain() + "/big");
  EXPECT_TRUE(has(ran.output, "connections that were cut")) << ran.output;
  EXPECT_TRUE(has(ran.output, "has used its 1048576 bytes")) << ran.output;
  EXPECT_TRUE(has(records(), "QUOTA_EXCEEDED")) << records();
}

TEST_F(EgressRunWarden, AHostThatDoesNotAnswerIsListed) {
  const Ran ran = run("--allow-net gone.test", "curl -sS -o /dev/null http://gone.test/");
  EXPECT_TRUE(has(ran.output, "connections that failed")) << ran.output;
  EXPECT_TRUE(has(ran.output, "gone.test:80: there is no such host")) << ran.output;
}

TEST_F(EgressRunWarden, WithoutAProxyEverybodyIsRefusedAtOnceAndTold) {
  // The same programs in another place, without this one.
  const std::string place = site_.root() + "/bin", programs = std::filesystem::path(SALLYPORT_CLI).parent_path();
  std::filesystem::create_directories(place);
  for (const auto& program : std::filesystem::directory_iterator(programs)) {
    const std::string name = program.path().filename();
    if (name.starts_with("sallyport") && name != "sallyport-egress") {
      std::filesystem::copy_file(program.path(), place + "/" + name);
    }
  }
  const Ran ran = shell("cd " + site_.project() + " && HOME=" + site_.root() + "/home " + place +
                        "/sallyport run --no-warden -- sh -c 'curl -sS -m 90 http://a.test/; curl -sS -m 90 "
                        "http://b.test/; echo code $?'");
  EXPECT_TRUE(has(ran.output, "there is no network: the egress proxy could not be started")) << ran.output;
  EXPECT_FALSE(has(ran.output, "timed out")) << ran.output;
  EXPECT_TRUE(has(ran.output, "code 7") || has(ran.output, "code 56")) << ran.output;
}

TEST_F(EgressRunWarden, TheHostsOwnLoopbackIsReachedWhereARuleNamesIt) {
  const std::string address = "127.0.0.1:" + site_.http, local = "localhost:" + site_.http;
  EXPECT_EQ(run("--allow-net " + address, "curl -sS http://" + address + "/hello").output, "hello from the site\n");
  const Ran named = run("--allow-net " + address, "curl -sS http://" + local + "/hello");
  EXPECT_TRUE(has(named.output, "--allow-net " + local)) << "and else it says how: " << named.output;
  // Without such a rule it is the sandbox itself.
  EXPECT_EQ(run("",
                "python3 -m http.server 8000 >/dev/null 2>&1 &\nuntil curl -sS -o /dev/null http://127.0.0.1:8000/ "
                "2>/dev/null; do sleep 0.1; done; echo served; kill $!")
                .output,
            "served\n");
}

TEST_F(EgressRunWarden, PolicyCheckLooksIntoTheListsThatAreNamed) {
  site_.write("p.toml", "[profile.p]\nnet.allow = [\"@nolist\"]\n");
  const Ran ran = shell(cli() + "policy check " + site_.root() + "/p.toml");
  EXPECT_NE(ran.status, 0);
  EXPECT_TRUE(has(ran.output, "there is no list @nolist")) << ran.output;
  const Ran shown = shell(cli() + "policy show --profile agent");
  EXPECT_TRUE(has(shown.output, "1024 connections at once, idle for 300 s")) << shown.output;
  EXPECT_FALSE(has(shown.output, "ssh.github.com")) << "on 443 nothing but TLS passes";
}

}  // namespace
}  // namespace sallyport::testing

// Who may come in to a pod, and what there is to learn and to tamper with outside.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>

#include "e2e/site.h"
#include "os/peer.h"
#include "pod/limits.h"
#include "pods.h"
#include "support/client.h"

namespace sallyport::testing {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(Pods, KeepTheirTokenOutOfArgumentsEnvironmentAndLogs) {
  make("secret", "sleep 1000", "--tcp");
  const pod::Record found = record("secret");
  const std::string hex = to_hex(found.token);
  const std::string raw(found.token.begin(), found.token.end());
  const std::string proc = "/proc/" + std::to_string(found.binding.pid);
  const auto agent = connect("secret")->call("pod.status");
  ASSERT_TRUE(agent);
  for (const std::string& path :
       {proc + "/cmdline", proc + "/environ", place("secret").log_path(), root_.path() + "/state/warden.log"}) {
    const std::string text = text_of(path);
    EXPECT_EQ(text.find(hex), std::string::npos) << path;
    EXPECT_EQ(text.find(raw), std::string::npos) << path;
  }
  EXPECT_EQ(agent->json().find(hex), std::string::npos);
  EXPECT_EQ(sallyport("--json pod ls").output.find(hex), std::string::npos);
  EXPECT_EQ(sallyport("call pod.list").output.find(hex), std::string::npos);
}

TEST_F(Pods, CannotSeeTheirOwnState) {
  // The state directory inside the workspace: it must be hidden even so.
  const std::string inside = root_.path() + "/project";
  std::ofstream(inside + "/peek.sh") << "find . -name pod.json 2>/dev/null; echo looked; read x";
  const std::string command = "cd '" + inside + "' && " + environment() + "SALLYPORT_RUNTIME_DIR='" + root_.path() +
                              "/run2' SALLYPORT_STATE_DIR='" + inside + "/state' " SALLYPORT_CLI " ";
  ASSERT_EQ(std::system((command + "pod new --name peek -- bash peek.sh >/dev/null").c_str()), 0);
  auto found = pod::find(pod::Place(inside + "/state/pods", "peek"));
  ASSERT_TRUE(found);
  auto client = pod::connect(*found);
  ASSERT_TRUE(client);
  auto attached = Attached::to(std::move(*client));
  ASSERT_TRUE(attached && attached->sees("looked"));
  EXPECT_EQ(attached->output.find("pod.json"), std::string::npos) << attached->output;
  ::kill(static_cast<pid_t>(found->binding.pid), SIGKILL);
  EXPECT_EQ(std::system((command + "down >/dev/null").c_str()), 0);
}

TEST_F(Pods, RefuseWhoHasNotTheToken) {
  make("tcp", "echo up; sleep 1000", "--tcp");
  pod::Record wrong = record("tcp");
  wrong.token[5] ^= 1;
  const auto refused = pod::connect(wrong);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unauthenticated);
  pod::Record empty = record("tcp");
  empty.token = {};
  EXPECT_FALSE(pod::connect(empty));
  pod::Record elsewhere = record("tcp");
  ++elsewhere.binding.start_time;
  EXPECT_FALSE(pod::connect(elsewhere)) << "bound to the process, not only to the token";
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("\0\0\0\0", 4),
        std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\x23\x02\x01\x00", 7) + std::string(32, 'n'),
        request_frame("1", "pod.wait")}) {
    Client raw = Client::tcp(record("tcp").address);
    ASSERT_TRUE(raw);
    raw.send(bytes);
    EXPECT_TRUE(raw.is_closed_by_peer());
  }
  const auto status = connect("tcp")->call("pod.status");
  ASSERT_TRUE(status);
  EXPECT_GE(status->value().get("counters").get("refused").as_int().value_or(0), 6);
  EXPECT_NE(text_of(place("tcp").log_path()).find("refused"), std::string::npos);
}

TEST_F(Pods, ShowASquatterOnADeadPodsPortNothing) {
  make("tcp", "sleep 1000", "--tcp");
  const pod::Record dead = record("tcp");
  // Whoever was connected ends first, or the kernel keeps the port for a while.
  kill_warden();
  ::kill(static_cast<pid_t>(dead.binding.pid), SIGKILL);
  ASSERT_TRUE(becomes("tcp", pod::Life::lost));
  const UniqueFd squatter{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int on = 1;
  ::setsockopt(squatter.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(dead.address.substr(dead.address.find(':') + 1))));
  ASSERT_TRUE(eventually(
      [&] { return ::bind(squatter.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0; }));
  ASSERT_EQ(::listen(squatter.get(), 8), 0);
  std::string heard;
  std::thread listening([&] {
    const UniqueFd victim{::accept(squatter.get(), nullptr, nullptr)};
    char block[4096];
    ssize_t count = ::recv(victim.get(), block, sizeof block, 0);
    if (count > 0) heard.assign(block, static_cast<std::size_t>(count));
    // It reflects what it heard: a proof made of the victim's own bytes.
    if (count > 0) ::send(victim.get(), block, static_cast<std::size_t>(count), MSG_NOSIGNAL);
    while ((count = ::recv(victim.get(), block, sizeof block, 0)) > 0)
      heard.append(block, static_cast<std::size_t>(count));
  });
  // As a client would that read the record an instant before the daemon died.
  const auto refused = pod::connect(dead);
  listening.join();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unauthenticated);
  EXPECT_EQ(heard.size(), 4U + 35U) << "HELLO and nothing else";
  EXPECT_EQ(heard.find(std::string(dead.token.begin(), dead.token.end())), std::string::npos);
  EXPECT_EQ(sallyport("pod attach tcp").status, 5) << "and later ones are told that it died";
}

TEST_F(Pods, CostLittleForAThousandWhoDoNotProveThemselves) {
  make("tcp", "echo up; sleep 1000", "--tcp");
  const pod::Record found = record("tcp");
  ASSERT_TRUE(attach("tcp"));
  const std::int64_t before = own_kib(daemon_pid("tcp"));
  ASSERT_GT(before, 0);
  std::vector<Client> crowd;
  for (int i = 0; i < 1000; ++i) {
    crowd.push_back(Client::tcp(found.address));
    if (crowd.back()) crowd.back().send(std::string("\0\0\0\x23\x02", 5));
  }
  // Those who can prove themselves still come in.
  EXPECT_TRUE(eventually([&] { return bool(pod::connect(found)); }));
  EXPECT_LE(own_kib(daemon_pid("tcp")), before + (kIsSanitized ? 1 << 20 : 1024)) << "1 MiB for all of them";
}

TEST_F(Pods, RefuseAStateFileThatIsNotTheirs) {
  make("one", "echo up; while read x; do echo \"said $x\"; done");
  const std::string path = place("one").record_path(), aside = root_.path() + "/aside";
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(sallyport("pod attach one").status, 1);
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  // Put in its place at once: one that is only gone, the pod writes again.
  ASSERT_EQ(std::system(("cp -p '" + path + "' '" + aside + "'").c_str()), 0);
  std::filesystem::create_symlink(aside, aside + ".link");
  std::filesystem::rename(aside + ".link", path);
  EXPECT_EQ(sallyport("pod attach one").status, 1);
  EXPECT_NE(sallyport("pod ls").output.find("tampered"), std::string::npos);
  // None of it was taken for the pod's death: restored, it is as it was.
  std::filesystem::rename(aside, path);
  auto client = attach("one");
  ASSERT_TRUE(client);
  client->type("still here\r");
  EXPECT_TRUE(client->sees("said still here"));
}

TEST_F(Pods, PutBackWhatSomebodyRemoves) {
  make("one", "echo up; while read x; do echo \"said $x\"; done");
  const pid_t daemon = daemon_pid("one");
  auto client = attach("one");
  ASSERT_TRUE(client && client->sees("up"));
  const std::string directory = place("one").path();
  int round = 0;
  for (const char* gone : {"/pod.json", "/pod.sock", "/pod.log", "", " moved", " replaced"}) {
    const std::string_view name = gone;
    if (name == " moved" || name == " replaced") {
      std::filesystem::rename(directory, directory + "-elsewhere");
      if (name == " replaced") {
        ASSERT_EQ(::mkdir(directory.c_str(), 0700), 0);
      }
    } else {
      std::filesystem::remove_all(directory + gone);
    }
    // Who was there goes on, and who comes finds it.
    const std::string word = "round" + std::to_string(++round);
    client->type(word + "\r");
    EXPECT_TRUE(client->sees("said " + word)) << gone;
    ASSERT_TRUE(eventually([&] {
      const auto found = place("one").read();
      return life("one") == pod::Life::running && found && pod::connect(*found);
    })) << gone;
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(place("one").log_path()); })) << gone;
    std::filesystem::remove_all(directory + "-elsewhere");
    auto later = attach("one", R"("role":"view")");
    ASSERT_TRUE(later && later->sees("said " + word)) << gone;
  }
  EXPECT_EQ(daemon_pid("one"), daemon);
  // The name is its own still, and its exit is recorded where it belongs.
  EXPECT_EQ(sallyport("pod new --name one -- true").status, 1);
  EXPECT_EQ(sallyport("pod kill one").status, 0);
  ASSERT_TRUE(client->reads_to_the_end());
  EXPECT_EQ(sallyport("pod wait one").status, 137);
  EXPECT_FALSE(place("one").exists()) << "collected, so gone for good";
}

}  // namespace
}  // namespace sallyport::testing

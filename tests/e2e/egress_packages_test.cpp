// Package managers and other programs that must work unchanged, and the ordinary user for whom they must.
#include <unistd.h>

#include "e2e/site.h"

namespace sallyport::testing {
namespace {

class EgressPackages : public EgressRun {
 protected:
  EgressPackages() {
    const Ran made = shell(TEST_HELPERS "/make_packages.sh " + site_.root() + "/site " + site_.http);
    EXPECT_EQ(made.status, 0) << made.output;
  }
};

TEST_F(EgressPackages, PipInstallsFromItsIndexThroughTheProxy) {
  const std::string pip = "/usr/bin/python3 -m pip --disable-pip-version-check -q --cert ca ";
  const std::string index = " --index-url " + secure() + "/simple/ left";
  const Ran ran =
      run(site_options(), pip + "install --target out" + index + " && PYTHONPATH=out /usr/bin/python3 -m left");
  EXPECT_TRUE(has(ran.output, "installed\n")) << ran.output;
  const Ran refused = run("", pip + "download --retries 0" + index);
  EXPECT_TRUE(has(refused.output, "--allow-net web.test:" + site_.https)) << refused.output;
}

TEST_F(EgressPackages, AptReadsItsRepositoryThroughTheProxy) {
  // A root directory of its own, as somebody would make who is not root; the proxy comes from the environment alone.
  const Ran ran = run(site_options(), R"SH(set -e
mkdir -p apt/etc/apt/apt.conf.d apt/etc/apt/preferences.d apt/etc/apt/trusted.gpg.d \
  apt/var/lib/apt/lists/partial apt/var/cache/apt/archives/partial apt/var/lib/dpkg
touch apt/var/lib/dpkg/status
echo "deb [trusted=yes] )SH" + plain() + R"SH(/deb ./" > apt/etc/apt/sources.list
apt="apt-get -qq -o Dir=$PWD/apt -o Dir::State::status=$PWD/apt/var/lib/dpkg/status
  -o Dir::Bin::methods=/usr/lib/apt/methods -o APT::Sandbox::User= -o Acquire::Languages=none"
$apt update
$apt download left
dpkg-deb --fsys-tarfile left_1.2.3_all.deb | tar -xO ./usr/share/left/file)SH");
  EXPECT_TRUE(has(ran.output, "content\n")) << ran.output;
}

TEST_F(EgressPackages, CargoFetchesFromItsRegistryThroughTheProxy) {
  const Ran told = run(site_options(), "echo $CARGO_HTTP_PROXY $CARGO_NET_GIT_FETCH_WITH_CLI");
  EXPECT_EQ(told.output, "http://127.0.0.1:3128 true\n");
  // Debian's brings a compiler of 300 MB: not asked for. Where there is one, it is tried.
  const Ran where = shell("dirname \"$(rustup which cargo 2>/dev/null || command -v cargo)\"");
  const std::string bin = where.output.substr(0, where.output.find('\n'));
  if (!std::filesystem::exists(bin + "/cargo")) return;
  const std::string toolchain = std::filesystem::path(bin).parent_path();
  std::filesystem::create_directories(site_.root() + "/profiles");
  site_.write("profiles/cargo.toml", "[profile.cargo]\nfs.read = [\"/usr\", \"/etc\", \"" + toolchain +
                                         "\"]\nfs.write = [\"${workspace}\"]\nexec = [\"/usr/**\", \"" + toolchain +
                                         "/**\"]\nenv = { PATH = \"" + bin + ":/usr/bin:/bin\" }\n");
  const Ran ran = run(site_options() + " --profile cargo", R"SH(mkdir -p app/src app/.cargo && cd app
printf '[package]\nname = "app"\nversion = "0.1.0"\n[dependencies]\nleft = "1"\n' > Cargo.toml
echo 'fn main() {}' > src/main.rs
printf '[source.crates-io]\nreplace-with = "site"\n[source.site]\nregistry = "sparse+%s"\n' \
  )SH" + plain() + R"SH(/index/ > .cargo/config.toml
cargo fetch 2>&1
ls $HOME/.cargo/registry/src/*/)SH");
  EXPECT_TRUE(has(ran.output, "left-1.2.3")) << ran.output;
}

TEST_F(EgressPackages, NpmReadsItsRegistryThroughTheProxy) {
  if (shell("command -v npm").status != 0) GTEST_SKIP() << "npm is not installed";
  site_.write(
      "site/left",
      R"({"name":"left","dist-tags":{"latest":"1.2.3"},"versions":{"1.2.3":{"name":"left","version":"1.2.3"}}})");
  const Ran ran = run(site_options(), "npm view left version --registry " + plain() + "/ 2>&1");
  EXPECT_TRUE(has(ran.output, "1.2.3")) << ran.output;
}

TEST_F(EgressPackages, AWebSocketPassesThroughATunnelAndIsRefusedWithout) {
  const std::string client = R"END(cat > ws.py <<'END'
import os, socket, sys
host, tunnels = sys.argv[1], sys.argv[2] == "tunnel"
s = socket.create_connection(("127.0.0.1", 3128))
def head():
    text = b""
    while not text.endswith(b"\r\n\r\n"):
        byte = s.recv(1)
        if not byte: break
        text += byte
    return text.decode()
if tunnels:
    s.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    print(head().split("\r\n")[0])
target = "/" if tunnels else f"http://{host}/"
s.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
          "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode())
print(head().split("\r\n")[0])
if tunnels:
    s.sendall(b"\x81\x85\0\0\0\0hello")
    print(s.recv(7, socket.MSG_WAITALL)[2:].decode())
else:
    print(s.recv(1000).decode())
END
)END";
  const std::string host = "web.test:" + site_.http;
  const Ran tunnel = run(site_options(), client + "python3 ws.py " + host + " tunnel");
  EXPECT_TRUE(has(tunnel.output, "HTTP/1.1 101 ") && has(tunnel.output, "\nhello\n")) << tunnel.output;
  const Ran plain = run(site_options(), client + "python3 ws.py " + host + " plain");
  EXPECT_TRUE(has(plain.output, "HTTP/1.1 501 ") && has(plain.output, "CONNECT HOST:PORT")) << plain.output;
}

// The other tests run as root where the machine's owner does; this one never does.
TEST_F(EgressPackages, WorksForAnOrdinaryUser) {
  const std::string root = site_.root(), programs = std::filesystem::path(SALLYPORT_CLI).parent_path();
  const std::string become = ::geteuid() == 0 ? "setpriv --reuid 65534 --regid 65534 --clear-groups " : "";
  std::filesystem::create_directories(root + "/bin");
  for (const char* program : {"sallyport", "sallyportd", "sallyport-pod", "sallyport-launcher", "sallyport-egress",
                              "sallyport-connect", "sallyport-signal"}) {
    std::filesystem::copy_file(programs + "/" + program, root + "/bin/" + program);
  }
  std::filesystem::create_directories(root + "/profiles");
  site_.write("profiles/net.toml",
              "[profile.net]\nfs.read = [\"/usr\", \"/etc\"]\nfs.write = [\"${workspace}\"]\nexec = [\"/usr/**\"]\n"
              "env = { PATH = \"/usr/bin:/bin\" }\nnet.allow = [\"web.test:" +
                  site_.http + "\", \"127.0.0.1:" + site_.http + "\"]\n");
  ASSERT_EQ(shell(become.empty() ? "true" : "chown -R 65534:65534 '" + root + "'").status, 0);
  const std::string sallyport =
      "cd " + site_.project() + " && " + become + "env " + environment() + root + "/bin/sallyport ";
  const std::string get = "curl -sS -m 60 " + plain() + "/hello";
  EXPECT_EQ(shell(sallyport + "run --no-warden " + site_options() + " -- " + get).output, "hello from the site\n");
  EXPECT_TRUE(has(shell(sallyport + "run -- " + get).output, "--allow-net web.test:" + site_.http));
  // A container of that user's warden, and a pod.
  const Ran id = shell(sallyport + "container create --profile net --workspace " + site_.project());
  ASSERT_EQ(id.status, 0) << id.output;
  EXPECT_EQ(shell(sallyport + "container exec " + id.output.substr(0, id.output.size() - 1) + " -- " + get).output,
            "hello from the site\n");
  EXPECT_EQ(shell(sallyport + "pod new --profile net --name web -- sh -c '" + get + "; read x'").output, "web\n");
  EXPECT_TRUE(eventually([&] { return has(shell(sallyport + "pod log web").output, "hello from the site"); }));
  EXPECT_EQ(shell(sallyport + "pod kill web").status, 0);
  EXPECT_EQ(shell(sallyport + "pod wait web").status, 137);
  EXPECT_TRUE(has(shell(sallyport + "--json audit query --method egress.connect").output, "container/pod-web-"));
  EXPECT_EQ(shell(sallyport + "down").status, 0);
}

}  // namespace
}  // namespace sallyport::testing

// A web site of the test's own, for clients in sandboxes to reach.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "support/daemon.h"
#include "support/shell.h"

namespace sallyport::testing {

inline Ran shell(const std::string& command) { return run_shell("{ " + command + "\n} 2>&1 </dev/null"); }

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A process of the test's that says one line and lives until its input ends.
class Helper {
 public:
  explicit Helper(std::vector<std::string> words) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_ = UniqueFd(in[1]);
    out_ = UniqueFd(out[0]);
  }
  ~Helper() {
    in_.reset();
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  std::string line() const {
    std::string line;
    char c = 0;
    while (::read(out_.get(), &c, 1) == 1 && c != '\n') line += c;
    return line;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd in_, out_;
};

// A site, web.test, on two loopback ports; and a project to work in.
class Site {
 public:
  Site() {
    for (const char* name : {"/site", "/project", "/home"}) std::filesystem::create_directories(root() + name);
    write("site/hello", "hello from the site\n");
    write("hosts", "127.0.0.1 web.test\n127.0.0.1 other.test\n10.0.0.1 private.test\n");
    const Ran made = shell(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
        "/CN=web.test -addext subjectAltName=DNS:web.test -keyout " +
        root() + "/key -out " + root() + "/project/ca");
    EXPECT_EQ(made.status, 0) << made.output;
    server_ =
        std::make_unique<Helper>(std::vector<std::string>{"python3", std::string(TEST_HELPERS) + "/web_server.py",
                                                          root() + "/site", root() + "/project/ca", root() + "/key"});
    const std::string ports = server_->line();
    http = ports.substr(0, ports.find(' '));
    https = ports.substr(ports.find(' ') + 1);
  }
  const std::string& root() const { return root_.path(); }
  std::string project() const { return root() + "/project"; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(root() + "/" + name) << text; }

  std::string http, https;  // ports

 private:
  TemporaryDirectory root_;
  std::unique_ptr<Helper> server_;
};

class EgressRun : public ::testing::Test {
 protected:
  // Everything on the site is allowed, by name and by address.
  std::string site_options() const {
    std::string options;
    for (const std::string& port : {site_.http, site_.https}) {
      options += " --allow-net web.test:" + port + " --allow-net 127.0.0.1:" + port;
    }
    return options;
  }
  Ran run(const std::string& options, const std::string& script) const {
    site_.write("project/script", script);
    return shell("cd " + site_.project() + " && " + environment() + SALLYPORT_CLI " run " + options +
                 " -- timeout 60 sh script");
  }
  std::string environment() const {
    return "HOME=" + site_.root() + "/home " + places_in(site_.root()) + "SALLYPORT_EGRESS_HOSTS=" + site_.root() +
           "/hosts ";
  }
  std::string plain() const { return "http://web.test:" + site_.http; }
  std::string secure() const { return "https://web.test:" + site_.https; }

  Site site_;
};

}  // namespace sallyport::testing

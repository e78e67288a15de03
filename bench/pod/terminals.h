// The terminals that are compared: each runs a command and shows its output to this process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/base.h"
#include "client/client.h"

namespace sallyport::bench {

using SteadyClock = std::chrono::steady_clock;
[[noreturn]] void give_up(const std::string& what);  // ends the run
double seconds_since(SteadyClock::time_point start);
// User and system time of a process so far, in seconds.
double cpu_of(pid_t pid);

// A program on a pseudo-terminal, which this process reads: nothing in between, or a detachable terminal's client.
class OnPty {
 public:
  OnPty(const std::string& command, bool is_raw_outside);
  ~OnPty();
  OnPty(const OnPty&) = delete;
  OnPty& operator=(const OnPty&) = delete;

  void type(std::string_view keys) const;
  // What came, waiting for it; empty at the end.
  std::string_view read();
  std::string_view read_at_most(std::size_t bytes);
  bool has_output(int millis) const;
  pid_t pid() const { return pid_; }
  int fd() const { return master_.get(); }
  void finish();  // waits for the program's end

 private:
  UniqueFd master_;
  pid_t pid_ = -1;
  std::unique_ptr<char[]> buffer_;
};

// This process, and another one with all that it starts from now on, on a single core; until it goes.
class OnOneCore {
 public:
  explicit OnOneCore(pid_t other);
  ~OnOneCore();
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  pid_t other_;
};

// A command kept by dtach, and a client at dtach's own socket: as a pod is measured, without a terminal in front.
class OnDtach {
 public:
  OnDtach(const std::string& path, const std::string& script);
  OnDtach(const OnDtach&) = delete;
  OnDtach& operator=(const OnDtach&) = delete;

  void type(std::string_view keys) const;
  std::string_view read();  // empty at the end

 private:
  void send(unsigned char type, std::string_view content) const;
  UniqueFd socket_;
  std::unique_ptr<char[]> buffer_;
};

// A command on a terminal that a process relays to a socket and back, and nothing else: neither frames nor a record of
// what was said, no second client. What any program between a person and a terminal costs at the least.
class OnRelay {
 public:
  OnRelay(const std::string& script, bool with_tcp);
  ~OnRelay();
  OnRelay(const OnRelay&) = delete;
  OnRelay& operator=(const OnRelay&) = delete;

  void type(std::string_view keys) const;
  std::string_view read();  // empty at the end

 private:
  UniqueFd socket_;
  pid_t pid_ = -1;
  std::unique_ptr<char[]> buffer_;
};

// A pod made through the warden, and a client attached to it.
class OnPod {
 public:
  OnPod(Client& warden, const std::string& pods_dir, const std::string& workspace, const std::string& script,
        bool with_tcp);
  ~OnPod();
  OnPod(const OnPod&) = delete;
  OnPod& operator=(const OnPod&) = delete;

  void attach();
  void detach() { client_.reset(); }
  void type(std::string_view keys);
  std::string_view read();  // what came, waiting for it; empty at the end
  const std::string& name() const { return name_; }
  pid_t daemon() const { return daemon_; }
  std::uint64_t skipped() const { return skipped_; }
  const std::string& last() const { return last_; }
  void wait();     // for the agent's end
  void collect();  // and forget it

 private:
  std::string name_;
  std::string pods_dir_;
  pid_t daemon_ = -1;
  std::unique_ptr<Client> client_;
  std::uint32_t input_ = 0, output_ = 0, next_ = 0;
  std::uint64_t skipped_ = 0;
  bool has_exited_ = false;
  std::string last_;
};

}  // namespace sallyport::bench

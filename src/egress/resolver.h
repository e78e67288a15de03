// Names to addresses, without making the loop wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/base.h"
#include "ipc/loop.h"
#include "policy/host.h"

namespace sallyport::egress {

// Asks the machine's resolver (getaddrinfo) on a few threads of its own. With a file of the form of /etc/hosts that
// file alone is asked, each time anew.
class Resolver {
 public:
  Resolver(ipc::Loop& loop, std::string hosts_file) : loop_(loop), hosts_file_(std::move(hosts_file)) {}
  ~Resolver();  // waits for lookups that are under way
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  using Found = Result<std::vector<policy::Address>>;  // never empty
  // `done` runs on the loop, once. NOT_FOUND if there is no such name; UNAVAILABLE if there is no answer.
  void lookup(std::string name, std::function<void(Found)> done);

 private:
  struct Job {
    std::string name;
    std::function<void(Found)> done;
  };
  void work();
  Found ask(const std::string& name) const;

  ipc::Loop& loop_;
  std::string hosts_file_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::size_t idle_ = 0;
  bool is_closed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sallyport::egress

// Names to addresses, without making the loop wait.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/base.h"
#include "ipc/loop.h"
#include "policy/host.h"

namespace sallyport::egress {

// Looks into /etc/hosts on a thread of its own, then asks the machine's resolver (getaddrinfo) on others. With a file
// of the form of /etc/hosts that file alone is asked, each time anew. Owners do not wait for each other: each has few
// threads, and few names that it waits for; equal names are asked for once.
class Resolver {
 public:
  Resolver(ipc::Loop& loop, std::string hosts_file) : loop_(loop), hosts_file_(std::move(hosts_file)) {}
  ~Resolver();  // waits for lookups that are under way
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  using Found = Result<std::vector<policy::Address>>;  // never empty
  using Done = std::function<void(Found)>;
  using Ticket = std::uint64_t;
  // `done` runs on the loop, once. NOT_FOUND if there is no such name; UNAVAILABLE if there is no answer.
  // RATE_LIMITED at once, and no `done`, where the owner waits for kMaxLookupsEach already.
  Result<Ticket> lookup(const std::string& owner, const std::string& name, Done done);
  // Nobody waits for it any more; an answer that is on its way still comes.
  void forget(Ticket ticket);

 private:
  struct Waiter {
    Ticket ticket;
    std::string owner;
    Done done;
  };
  struct Query {
    std::string owner, name;
    std::vector<Waiter> waiters;
  };
  using QueryPtr = std::shared_ptr<Query>;
  struct Owner {
    std::deque<QueryPtr> queue;            // not in the file; for the machine's resolver
    std::size_t waiting = 0, running = 0;  // waiters; threads
    std::size_t runnable() const;
  };

  // ---- all of these with the lock held ----
  void join(const QueryPtr& query, Waiter waiter);
  void finish(const QueryPtr& query, Found found);
  void leave(const std::string& owner);
  void tidy(const std::string& owner);
  void queue_for_machine(const QueryPtr& query);
  QueryPtr next();  // the owners in turn; null: nothing may run
  void ask_files();
  void ask_machine();

  ipc::Loop& loop_;
  std::string hosts_file_;
  std::mutex mutex_;
  std::condition_variable files_wake_, machine_wake_;
  std::deque<QueryPtr> files_;  // to be looked for in the file
  std::map<std::string, Owner> owners_;
  std::map<std::pair<std::string, std::string>, QueryPtr> queued_;  // by owner and name
  std::map<std::string, QueryPtr> asking_;                          // the machine's resolver, by name
  std::map<Ticket, QueryPtr> tickets_;
  Ticket last_ticket_ = 0;
  std::string last_owner_;  // whose turn it was
  std::size_t idle_ = 0;
  bool is_closed_ = false;
  std::thread files_thread_;
  std::vector<std::thread> machine_threads_;
};

}  // namespace sallyport::egress

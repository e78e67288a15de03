#include "egress/resolver.h"

#include <netdb.h>
#include <sys/socket.h>

#include <netinet/in.h>
#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "egress/http_head.h"
#include "egress/limits.h"

namespace sallyport::egress {
namespace {

constexpr const char* kHostsFile = "/etc/hosts";

Error no_such_name() { return Error::make(Code::not_found, "no such name"); }

Resolver::Found ask_file(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  if (!file) return Error::make(Code::unavailable, "the names cannot be read", path);
  std::vector<policy::Address> found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string address, alias;
    words >> address;
    const auto parsed = policy::parse_address(address);
    while (parsed && words >> alias) {
      if (equals_ignoring_case(alias, name) && found.size() < kMaxAddresses) found.push_back(*parsed);
    }
  }
  if (found.empty()) return no_such_name();
  return found;
}

Resolver::Found ask_getaddrinfo(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int failed = ::getaddrinfo(name.c_str(), nullptr, &hints, &raw);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(raw, &::freeaddrinfo);
  if (failed == EAI_NONAME || failed == EAI_NODATA) return no_such_name();
  if (failed != 0) return Error::make(Code::unavailable, "the resolver does not answer", ::gai_strerror(failed));
  std::vector<policy::Address> found;
  for (const addrinfo* each = list.get(); each != nullptr && found.size() < kMaxAddresses; each = each->ai_next) {
    policy::Address address;
    address.is_v6 = each->ai_family == AF_INET6;
    if (address.is_v6) {
      sockaddr_in6 socket_address{};
      std::memcpy(&socket_address, each->ai_addr, sizeof socket_address);
      std::memcpy(address.bytes.data(), &socket_address.sin6_addr, 16);
    } else if (each->ai_family == AF_INET) {
      sockaddr_in socket_address{};
      std::memcpy(&socket_address, each->ai_addr, sizeof socket_address);
      std::memcpy(address.bytes.data(), &socket_address.sin_addr, 4);
    } else {
      continue;
    }
    if (std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
  }
  if (found.empty()) return no_such_name();
  return found;
}

}  // namespace

Resolver::~Resolver() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  files_wake_.notify_all();
  machine_wake_.notify_all();
  if (files_thread_.joinable()) files_thread_.join();
  for (std::thread& thread : machine_threads_) thread.join();
}

std::size_t Resolver::Owner::runnable() const {
  return std::min(queue.size(), kResolverThreadsEach - std::min(running, kResolverThreadsEach));
}

Result<Resolver::Ticket> Resolver::lookup(const std::string& owner, const std::string& name, Done done) {
  const std::lock_guard lock(mutex_);
  Owner& mine = owners_[owner];
  if (mine.waiting >= kMaxLookupsEach) {
    return Error::make(Code::rate_limited, "the container waits for " + std::to_string(mine.waiting) +
                                               " names that are being looked up, its limit");
  }
  ++mine.waiting;
  const Ticket ticket = ++last_ticket_;
  Waiter waiter{ticket, owner, std::move(done)};
  if (const auto asked = asking_.find(name); asked != asking_.end()) {
    join(asked->second, std::move(waiter));
    return ticket;
  }
  QueryPtr& query = queued_[{owner, name}];
  const bool is_new = query == nullptr;
  if (is_new) query = std::make_shared<Query>(Query{owner, name, {}});
  join(query, std::move(waiter));
  if (is_new) {
    files_.push_back(query);
    if (!files_thread_.joinable()) files_thread_ = std::thread([this] { ask_files(); });
    files_wake_.notify_one();
  }
  return ticket;
}

void Resolver::forget(Ticket ticket) {
  const std::lock_guard lock(mutex_);
  const auto node = tickets_.extract(ticket);
  if (node.empty()) return;
  const QueryPtr& query = node.mapped();
  const auto waiter = std::find_if(query->waiters.begin(), query->waiters.end(),
                                   [&](const Waiter& each) { return each.ticket == ticket; });
  const std::string owner = waiter->owner;
  query->waiters.erase(waiter);
  const auto asked = asking_.find(query->name);
  const bool is_under_way = asked != asking_.end() && asked->second == query;
  if (query->waiters.empty() && !is_under_way) {
    queued_.erase({query->owner, query->name});
    std::erase(files_, query);
    std::erase(owners_[query->owner].queue, query);
  }
  leave(owner);
}

void Resolver::join(const QueryPtr& query, Waiter waiter) {
  tickets_[waiter.ticket] = query;
  query->waiters.push_back(std::move(waiter));
}

void Resolver::finish(const QueryPtr& query, Found found) {
  const auto shared = std::make_shared<Found>(std::move(found));
  for (Waiter& waiter : query->waiters) {
    tickets_.erase(waiter.ticket);
    leave(waiter.owner);
    loop_.post([done = std::move(waiter.done), shared] { done(*shared); });
  }
  query->waiters.clear();
}

void Resolver::leave(const std::string& owner) {
  --owners_[owner].waiting;
  tidy(owner);
}

void Resolver::tidy(const std::string& owner) {
  const Owner& left = owners_[owner];
  if (left.waiting == 0 && left.running == 0 && left.queue.empty()) owners_.erase(owner);
}

void Resolver::ask_files() {
  std::unique_lock lock(mutex_);
  for (;;) {
    files_wake_.wait(lock, [this] { return is_closed_ || !files_.empty(); });
    if (is_closed_) return;
    const QueryPtr query = std::move(files_.front());
    files_.pop_front();
    const std::string name = query->name;
    lock.unlock();
    Found found = ask_file(hosts_file_.empty() ? kHostsFile : hosts_file_, name);
    lock.lock();
    if (query->waiters.empty()) continue;  // forgotten meanwhile
    if (!found && hosts_file_.empty()) {
      queue_for_machine(query);
    } else {
      queued_.erase({query->owner, query->name});
      finish(query, std::move(found));
    }
  }
}

void Resolver::queue_for_machine(const QueryPtr& query) {
  owners_[query->owner].queue.push_back(query);
  std::size_t runnable = 0;
  for (const auto& [name, owner] : owners_) runnable += owner.runnable();
  if (runnable > idle_ && machine_threads_.size() < kResolverThreads) {
    machine_threads_.emplace_back([this] { ask_machine(); });
  }
  machine_wake_.notify_one();
}

Resolver::QueryPtr Resolver::next() {
  auto turn = owners_.upper_bound(last_owner_);
  for (std::size_t i = 0; i < owners_.size(); ++i, ++turn) {
    if (turn == owners_.end()) turn = owners_.begin();
    Owner& owner = turn->second;
    while (owner.runnable() != 0) {
      const QueryPtr query = std::move(owner.queue.front());
      owner.queue.pop_front();
      queued_.erase({query->owner, query->name});
      const auto [asked, is_new] = asking_.try_emplace(query->name, query);
      if (is_new) {
        ++owner.running;
        last_owner_ = turn->first;
        return query;
      }
      for (Waiter& waiter : query->waiters) join(asked->second, std::move(waiter));  // another owner's turn came first
    }
  }
  return nullptr;
}

void Resolver::ask_machine() {
  std::unique_lock lock(mutex_);
  for (;;) {
    QueryPtr query;
    ++idle_;
    machine_wake_.wait(lock, [&] { return is_closed_ || (query = next()) != nullptr; });
    --idle_;
    if (is_closed_) return;
    const std::string name = query->name;
    lock.unlock();
    Found found = ask_getaddrinfo(name);
    lock.lock();
    asking_.erase(name);
    --owners_[query->owner].running;
    finish(query, std::move(found));
    tidy(query->owner);
  }
}

}  // namespace sallyport::egress

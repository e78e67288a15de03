#include "egress/resolver.h"

#include <netdb.h>
#include <sys/socket.h>

#include <netinet/in.h>
#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "egress/limits.h"

namespace sallyport::egress {
namespace {

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
      if (alias == name && found.size() < kMaxAddresses) found.push_back(*parsed);
    }
  }
  if (found.empty()) return no_such_name();
  return found;
}

Resolver::Found ask_machine(const std::string& name) {
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
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Resolver::lookup(std::string name, std::function<void(Found)> done) {
  const std::lock_guard lock(mutex_);
  if (jobs_.size() >= kMaxLookups) {
    loop_.post(
        [done = std::move(done)] { done(Error::make(Code::unavailable, "too many names are being looked up")); });
    return;
  }
  jobs_.push_back({std::move(name), std::move(done)});
  if (jobs_.size() > idle_ && threads_.size() < kResolverThreads) threads_.emplace_back([this] { work(); });
  wake_.notify_one();
}

void Resolver::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return is_closed_ || !jobs_.empty(); });
    --idle_;
    if (is_closed_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    loop_.post(
        [done = std::move(job.done), found = std::make_shared<Found>(ask(job.name))] { done(std::move(*found)); });
    lock.lock();
  }
}

Resolver::Found Resolver::ask(const std::string& name) const {
  return hosts_file_.empty() ? ask_machine(name) : ask_file(hosts_file_, name);
}

}  // namespace sallyport::egress

#include "client/pool.h"

namespace sallyport {

Result<ClientPool::Lease> ClientPool::take() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!idle_.empty()) {
      std::unique_ptr<Client> client = std::move(idle_.back());
      idle_.pop_back();
      if (client->is_open()) return Lease(*this, std::move(client));
      --open_;
    }
    if (open_ < most_) break;
    returned_.wait(lock);
  }
  ++open_;
  lock.unlock();
  auto client = connect_();
  if (client) return Lease(*this, std::move(*client));
  lock.lock();
  --open_;
  returned_.notify_one();
  return std::move(client).error();
}

void ClientPool::give_back(std::unique_ptr<Client> client) {
  const std::lock_guard lock(mutex_);
  if (client->is_as_new()) {
    idle_.push_back(std::move(client));
  } else {
    --open_;
  }
  returned_.notify_one();
}

Result<std::string> ClientPool::call(std::string_view method, std::string_view params, const CallOptions& options) {
  TRY(Lease lease, take());
  TRY(const Answer answer, lease->call(method, params, options));
  return answer.json();
}

}  // namespace sallyport

// Connections to share among threads.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "client/client.h"

namespace sallyport {

// At most `most` connections, opened when needed and kept for reuse. Thread-safe. A connection that was
// lost is replaced; the call that noticed gets the error, because only the caller knows whether it may be
// sent twice. One that comes back changed (a handler, a subscription, a narrowing, something still on its
// way) is closed: nobody inherits what another one left.
class ClientPool {
 public:
  using Connect = std::function<Result<std::unique_ptr<Client>>()>;
  ClientPool(Connect connect, std::size_t most) : connect_(std::move(connect)), most_(most) {}

  // One connection, for as long as the lease lives. Leases end before the pool does.
  class Lease {
   public:
    Lease(ClientPool& pool, std::unique_ptr<Client> client) : pool_(&pool), client_(std::move(client)) {}
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (client_) pool_->give_back(std::move(client_));
    }
    Client* operator->() const { return client_.get(); }

   private:
    ClientPool* pool_;
    std::unique_ptr<Client> client_;
  };
  Result<Lease> take();  // waits while all are in use

  // One call on whichever connection is free; the answer as JSON text.
  Result<std::string> call(std::string_view method, std::string_view params = {}, const CallOptions& options = {});

 private:
  void give_back(std::unique_ptr<Client> client);

  Connect connect_;
  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Client>> idle_;
  std::size_t open_ = 0;
};

}  // namespace sallyport

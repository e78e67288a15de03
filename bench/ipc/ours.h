// Ourselves: the real daemon and the real client library.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "contender.h"
#include "directory.h"

namespace sallyport::bench {

// A sallyportd with directories of its own.
class Daemon {
 public:
  // Returns when its doors are open.
  Daemon(const std::string& program, int cpu, const std::vector<std::string>& options = {});
  // With the state that an earlier one left; ends in good order.
  Daemon(const std::string& program, std::shared_ptr<Directory> state, int cpu = kAnyCpu);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  const Process& process() const { return process_; }
  std::string socket() const { return directory_->path() + "/warden.sock"; }
  std::unique_ptr<Client> connect() const;
  std::unique_ptr<Client> connect_tcp() const;

 private:
  void start(const std::string& program, int cpu, const std::vector<std::string>& options);

  std::shared_ptr<Directory> directory_;
  bool ends_in_order_ = false;
  Process process_;
};

// The client's side; made after the process was pinned, because a client on one CPU never spins.
class Ours {
 public:
  explicit Ours(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  void ping();
  void echo_json(const std::string& params);
  void echo_chunks(ByteView bytes);
  void pipeline(int calls);

 private:
  std::unique_ptr<Client> client_;
};

// One call in flight on each of kWindow connections.
class OursFanOut {
 public:
  explicit OursFanOut(const Daemon& daemon);
  void run(int calls);

 private:
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace sallyport::bench

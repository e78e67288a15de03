// Another RPC system, as a program of two roles: `PROGRAM server SOCKET`, which prints a line when it
// listens, and `PROGRAM client SOCKET`, which reads lines `small N`, `pipeline N`, `megabyte N` and answers
// each with `p50_us p99_us calls_per_s cpu_us` of N calls (cpu_us: its own).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "contender.h"

namespace sallyport::bench {

class Peer {
 public:
  // Null if the program is missing or does not start: said on stderr.
  static std::unique_ptr<Peer> start(std::string name, const std::vector<std::string>& command, int cpu,
                                     std::string greeting = {});
  ~Peer();

  const std::string& name() const { return name_; }
  const Process& server() const { return server_; }
  const std::string& socket() const { return socket_; }
  const std::string& greeting() const { return greeting_; }  // what a client says first, for idle connections
  Measurement run(const std::string& what, int calls);

 private:
  Peer(std::string name, std::string greeting) : name_(std::move(name)), greeting_(std::move(greeting)) {}

  std::string name_, socket_, greeting_;
  Process server_, client_;
  UniqueFd from_server_, to_client_, from_client_;
};

}  // namespace sallyport::bench

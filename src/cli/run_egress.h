// The egress proxy of one `sallyport run`: started when its command first asks for the network, and again if it dies.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/base.h"
#include "egress/tally.h"
#include "os/spawn.h"
#include "policy/net.h"

namespace sallyport::cli {

class RunEgress {
 public:
  using OnReport = std::function<void(const egress::Report&)>;
  RunEgress(policy::NetPolicy policy, std::string hosts_file, OnReport on_report)
      : policy_(std::move(policy)), hosts_file_(std::move(hosts_file)), on_report_(std::move(on_report)) {}
  ~RunEgress();
  RunEgress(const RunEgress&) = delete;
  RunEgress& operator=(const RunEgress&) = delete;

  // The sandbox's listener; a copy of it is kept.
  void take(int listener);
  // Holds from now on, also for connections that are open.
  void update(policy::NetPolicy policy);
  // What to wait for: the first connection, then the proxy's reports.
  int poll_fd() const { return socket_ ? socket_.get() : listener_.get(); }
  void on_readable();
  // After the command: ends the proxy and hears its last reports.
  void finish();

  const egress::Tally& tally() const { return tally_; }
  const std::string& fault() const { return fault_; }  // why there is no proxy; empty if all is well

 private:
  void start();
  bool tell();  // the proxy of its policy; false: it does not take it
  void give_up(std::string why);
  bool take_reports();  // false: the proxy is gone
  void reap();

  policy::NetPolicy policy_;
  std::string hosts_file_, fault_;
  OnReport on_report_;
  UniqueFd listener_, socket_;
  os::Child proxy_;
  int deaths_ = 0;
  wire::Decoder decoder_;
  egress::Tally tally_;
};

}  // namespace sallyport::cli

// gRPC over a Unix socket, with its own recommended way of each: the callback server, blocking stubs for
// one call at a time, callbacks for many. See peer.h for the roles.
#include <grpcpp/grpcpp.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

#include "peer.grpc.pb.h"

namespace {

using namespace sallyport::bench;
constexpr int kWindow = 64;
constexpr int kMaxBytes = 4 << 20;

class DoorService final : public Door::CallbackService {
  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context, const PingRequest*, PingReply* reply) override {
    reply->set_pong(true);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* Echo(grpc::CallbackServerContext* context, const EchoMessage* request,
                                 EchoMessage* reply) override {
    reply->set_data(request->data());
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

int serve(const std::string& address) {
  DoorService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  builder.SetMaxReceiveMessageSize(kMaxBytes);
  const auto server = builder.BuildAndStart();
  if (!server) return 1;
  std::cout << "listening" << std::endl;
  server->Wait();
  return 0;
}

double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

void check(const grpc::Status& status) {
  if (!status.ok()) {
    std::cerr << status.error_message() << '\n';
    std::exit(1);
  }
}

// Keeps kWindow calls in flight; each answer starts the next call.
class Pipeline {
 public:
  Pipeline(Door::Stub& stub, int calls) : stub_(stub), calls_(calls) {}

  void run() {
    for (int i = 0; i < kWindow; ++i) next();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return answered_ == calls_; });
  }

 private:
  struct Call {
    grpc::ClientContext context;
    PingRequest request;
    PingReply reply;
  };
  void next() {
    if (sent_++ >= calls_) return;
    auto* call = new Call;
    stub_.async()->Ping(&call->context, &call->request, &call->reply, [this, call](const grpc::Status& status) {
      check(status);
      delete call;
      next();
      const std::lock_guard lock(mutex_);
      if (++answered_ == calls_) done_.notify_all();
    });
  }

  Door::Stub& stub_;
  const int calls_;
  std::atomic<int> sent_ = 0;
  int answered_ = 0;
  std::mutex mutex_;
  std::condition_variable done_;
};

void report(int calls, std::vector<double> times, const std::function<void(std::vector<double>&)>& work) {
  const double cpu = cpu_us();
  const auto start = std::chrono::steady_clock::now();
  work(times);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const double used = (cpu_us() - cpu) / calls;
  std::sort(times.begin(), times.end());
  const auto at = [&](double q) {
    return times.empty() ? 0 : times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))];
  };
  std::printf("%.3f %.3f %.1f %.3f\n", at(0.5), at(0.99), calls / elapsed.count(), used);
  std::fflush(stdout);
}

int call(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxBytes);
  const auto stub = Door::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  EchoMessage megabyte;
  megabyte.set_data(std::string(1'000'000, 'x'));
  const auto ping = [&] {
    grpc::ClientContext context;
    PingReply reply;
    check(stub->Ping(&context, PingRequest(), &reply));
  };
  const auto echo = [&] {
    grpc::ClientContext context;
    EchoMessage reply;
    check(stub->Echo(&context, megabyte, &reply));
  };
  std::string what;
  int calls = 0;
  while (std::cin >> what >> calls) {
    report(calls, {}, [&](std::vector<double>& times) {
      if (what == "pipeline") return Pipeline(*stub, calls).run();
      for (int i = 0; i < calls; ++i) {
        const auto before = std::chrono::steady_clock::now();
        what == "small" ? ping() : echo();
        const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - before;
        times.push_back(time.count());
      }
    });
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string role = argv[1], address = std::string("unix:") + argv[2];
  return role == "server" ? serve(address) : call(address);
}

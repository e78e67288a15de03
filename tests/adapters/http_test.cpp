// Transfers, to backends that are there and do not answer, or are not there.
#include "adapters/http.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <thread>

namespace sallyport::adapters {
namespace {

// Listens on loopback and accepts nobody: the kernel connects so many, and lets all others wait.
class Unaccepting {
 public:
  explicit Unaccepting(int backlog) : fd_(make_socket(0)) {
    socklen_t length = sizeof address_;
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(fd_.get(), address(), length) != 0 || ::listen(fd_.get(), backlog) != 0 ||
        ::getsockname(fd_.get(), address(), &length) != 0) {
      std::abort();
    }
  }
  void fill() {
    for (int i = 0; i < 8; ++i) {
      others_.push_back(make_socket(SOCK_NONBLOCK));
      [[maybe_unused]] const int connecting = ::connect(others_.back().get(), address(), sizeof address_);
    }
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(ntohs(address_.sin_port)) + "/"; }

 private:
  static UniqueFd make_socket(int flags) { return UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)); }
  sockaddr* address() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_in address_{};
  UniqueFd fd_;
  std::vector<UniqueFd> others_;
};

class HttpTransfers : public ::testing::Test {
 protected:
  ~HttpTransfers() override {
    loop_.post([this] { loop_.stop(); });
    thread_.join();
  }
  Result<HttpResponse> ask(const std::string& url, std::string body = {}) {
    HttpRequest request;
    request.url = url;
    request.body = std::move(body);
    request.timeout = Millis(700);
    std::promise<Result<HttpResponse>> promise;
    http_.start(std::move(request), {}, [&](Result<HttpResponse> response) { promise.set_value(std::move(response)); });
    return promise.get_future().get();
  }

  ipc::Loop loop_{Spinner::Mode::never};
  Http http_{loop_};
  std::thread thread_{[this] { loop_.run(); }};
};

TEST_F(HttpTransfers, ABackendThatCannotBeConnectedInTimeIsNotThere) {
  Unaccepting backend(0);
  backend.fill();
  const auto response = ask(backend.url());
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::unavailable);
  EXPECT_TRUE(response.error().retryable);
}

TEST_F(HttpTransfers, ABackendThatWasAskedAndIsSilentIsTooLate) {
  const Unaccepting backend(8);
  // The second is more than a connection takes which nobody reads.
  for (const std::string& body : {std::string(), std::string(32U << 20, 'x')}) {
    const auto response = ask(backend.url(), body);
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error().code, Code::timeout);
  }
}

}  // namespace
}  // namespace sallyport::adapters

// Sessions without a warden around them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "ipc/call.h"
#include "support/client.h"

namespace sallyport::ipc {

class Served : public ::testing::Test {
 protected:
  using Answer = std::function<Fire(std::shared_ptr<Session>, wire::Message)>;

  // A session, and who is at its other end.
  std::pair<std::shared_ptr<Session>, testing::Client> connect(wire::Side side = wire::Side::accepting) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    auto session = Session::open(sessions_, UniqueFd(ends[0]), UniqueFd(), side, "test/1");
    EXPECT_TRUE(session);
    return {*session, testing::Client(UniqueFd(ends[1]))};
  }
  // One session whose requests go to `answer`, served until its client has ended.
  testing::Client open(Answer answer, Account* account = nullptr) {
    auto [session, client] = connect();
    if (account != nullptr) session->charge_to(*account);
    serve(std::move(session), std::move(answer));
    return std::move(client);
  }
  static Fire serve(std::shared_ptr<Session> session, Answer answer) {
    while (co_await session->receive()) {
      while (auto request = session->next_request()) answer(session, std::move(*request));
      session->end_turn();
    }
    session->finish();
  }

  void run_until_all_is_done() {
    sessions_.when_empty([this] { loop_.stop(); });
    loop_.run();
  }
  // The same, while this is done on a thread beside the loop's.
  void run_beside(const std::function<void()>& peers) {
    std::thread other(peers);
    run_until_all_is_done();
    other.join();
    loop_.settle();
  }
  // From that thread.
  void on_loop(const std::function<void()>& work) {
    std::promise<void> done;
    loop_.post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Until the claim holds; false if it never does.
  bool run_until(const std::function<bool()>& claim) {
    const auto end = std::chrono::steady_clock::now() + testing::kPatience;
    const std::function<void()> look = [&] {
      if (claim() || std::chrono::steady_clock::now() > end) return loop_.stop();
      loop_.after(Millis(5), look);
    };
    loop_.post(look);
    loop_.run();
    return claim();
  }
  // Long enough that what must not happen would have.
  void run_for_a_while() {
    loop_.after(Millis(500), [this] { loop_.stop(); });
    loop_.run();
  }

  SystemClock clock_;
  Log log_{-1, LogFormat::text, LogLevel::error, clock_};
  Loop loop_{Spinner::Mode::never};
  Sessions sessions_{loop_, log_, SessionLimits()};
};

}  // namespace sallyport::ipc

// Sessions without a warden around them.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "ipc/call.h"
#include "support/client.h"

namespace sallyport::ipc {

class Served : public ::testing::Test {
 protected:
  using Answer = std::function<Fire(std::shared_ptr<Session>, wire::Message)>;

  // One session whose requests go to `answer`, served until its client has ended.
  testing::Client open(Answer answer, Account* account = nullptr) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    auto session = Session::open(sessions_, UniqueFd(ends[0]), UniqueFd(), wire::Side::accepting, "test/1");
    EXPECT_TRUE(session);
    if (account != nullptr) (*session)->charge_to(*account);
    serve(*session, std::move(answer));
    return testing::Client(UniqueFd(ends[1]));
  }
  void run_until_all_is_done() {
    sessions_.when_empty([this] { loop_.stop(); });
    loop_.run();
  }
  // Long enough that everything that will be read was.
  void run_for_a_while() {
    loop_.after(Millis(500), [this] { loop_.stop(); });
    loop_.run();
  }
  static Fire serve(std::shared_ptr<Session> session, Answer answer) {
    while (co_await session->receive()) {
      while (auto request = session->next_request()) answer(session, std::move(*request));
      session->end_turn();
    }
    session->finish();
  }

  SystemClock clock_;
  Log log_{-1, LogFormat::text, LogLevel::error, clock_};
  Loop loop_{Spinner::Mode::never};
  Sessions sessions_{loop_, log_, SessionLimits()};
};

}  // namespace sallyport::ipc
